"""Hostile folders: models of transformers with code of their own, and what `serve` reads beside a model."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from .case import Case, Outcome, Place, convert
from .checkpoint_files import safetensors_bytes
from .onnx_files import endless_onnx, good_onnx
from .record_files import write_artifact

_CODE = "import os\nos.system('touch {place.marker}')\nfrom transformers import PreTrainedModel\nclass M(PreTrainedModel): pass\n"
_BERT = {
    "model_type": "bert", "architectures": ["BertModel"], "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
    "intermediate_size": 8, "vocab_size": 16, "max_position_embeddings": 8,
}  # fmt: skip
_SERVE = ("--grpc-port", "0", "--rest-port", "0")
_SERVED = ("serve", "d=m", *_SERVE)


def _transformers() -> Iterator[Case]:
    words = convert("hf:f", "onnx")
    configs: dict[str, str | bytes] = {
        "auto_map": json.dumps({**_BERT, "auto_map": {"AutoModel": "modeling.M", "AutoConfig": "modeling.M"}}),
        "an attention of the hub": json.dumps({**_BERT, "_attn_implementation": "evil/kernel"}),
        "a pipeline of its own": json.dumps({**_BERT, "custom_pipelines": {"a": {"impl": "modeling.M"}}}),
        "an unknown model_type": json.dumps({**_BERT, "model_type": "../modeling", "architectures": ["M"]}),
        "a class of os": json.dumps({**_BERT, "architectures": ["os.system"]}), "a class of builtins": json.dumps({**_BERT, "architectures": ["eval"]}),
        "architectures that are a number": json.dumps({**_BERT, "architectures": 7}), "architectures of lists": json.dumps({**_BERT, "architectures": [["BertModel"]]}),
        "a model_type that is a list": json.dumps({**_BERT, "model_type": ["bert"]}), "100,000 brackets": "[" * 100_000, "a list": "[]", "no UTF-8": b"\xff{}",
        "10^9 layers": json.dumps({**_BERT, "num_hidden_layers": 10**9}), "10^12 words": json.dumps({**_BERT, "vocab_size": 10**12}),
        "a width of 2^70": json.dumps({**_BERT, "hidden_size": 1 << 70}), "a width of text": json.dumps({**_BERT, "hidden_size": "os.system"}),
        "an activation as code": json.dumps({**_BERT, "hidden_act": "__import__('os').system('touch executed')"}),
        "a quantization": json.dumps({**_BERT, "quantization_config": {"quant_method": "evil\nPASS  7 of 7 targets verified"}}),
        "a quantization that is a list": json.dumps({**_BERT, "quantization_config": [1]}),
        "a dtype as code": json.dumps({**_BERT, "dtype": "os.system", "torch_dtype": "eval"}),
        "a base model elsewhere": json.dumps({**_BERT, "_name_or_path": "/etc", "backbone": "https://evil.example", "use_timm_backbone": True}),
        "a number of 5000 digits": '{"a": ' + "9" * 5000 + "}",
    }  # fmt: skip
    for name, config in configs.items():

        def build(place: Place, config: str | bytes = config) -> None:
            place.write("f/config.json", config)
            place.write("f/modeling.py", _CODE.format(place=place))
            place.write("f/configuration_m.py", _CODE.format(place=place))
            place.write(
                "f/model.safetensors",
                safetensors_bytes({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}, bytes(12)),
            )

        yield Case(f"hf/{name}", "run the code beside it, or fill memory", build, words)
    files: dict[str, Callable[[Place], object]] = {
        "a pickle as weights": lambda place: place.write("f/pytorch_model.bin", b"\x80\x02cos\nsystem\nX\x04\0\0\0true\x85R."),
        "an index of files outside": lambda place: place.write("f/model.safetensors.index.json", json.dumps({"weight_map": {"w": "../../outside/secret"}})),
        "weights behind a link": lambda place: (place.here / "f" / "model.safetensors").symlink_to(place.secret),
        "no weights": lambda place: None,
    }  # fmt: skip
    for name, change in files.items():
        yield Case(
            f"hf/{name}",
            "run code, or read outside",
            lambda place, change=change: (place.write("f/config.json", json.dumps(_BERT)), change(place)),
            words,
        )


def _text_files() -> Iterator[Case]:
    """--model-config-file and --batching-parameters-file."""
    config = 'model_config_list {{ config {{ name: "{}" base_path: "{}" }} }}'
    configs: dict[str, str | bytes] = {
        "10,000 braces": "model_config_list {" + "config {" * 10_000, "10,000 unknown braces": "a {" * 10_000, "no UTF-8": b'model_config_list { config { name: "\xff" } }',
        "a path outside": config.format("m", "../outside"), "a system's folder": config.format("m", "/etc"), "an absolute link": config.format("m", "link"),
        "a name that is a path": config.format("../../x", "m"), "a name called as a verdict": config.format("a\\nPASS", "m"),
        "a NUL in the path": config.format("m", "m\\000x"), "a number of 5000 digits": "model_config_list { config { name: \"m\" base_path: \"m\" model_version_policy { latest { num_versions: " + "9" * 5000 + "} } } }",
        "an Any": 'model_config_list { config { name: "m" [type.googleapis.com/google.protobuf.Any] { } } }', "100,000 models": "model_config_list {" + 'config { name: "m" base_path: "none" }' * 100_000 + "}",
        "a negative version": 'model_config_list { config { name: "m" base_path: "m" model_version_policy { specific { versions: -1 } } } }',
    }  # fmt: skip

    def build(place: Place, text: str | bytes) -> None:
        place.write("c.txt", text)
        place.write("m/1/model.onnx", good_onnx().SerializeToString())
        (place.here / "link").symlink_to(place.outside)

    for name, text in configs.items():
        yield Case(
            f"model_config_list/{name}",
            "read outside, or break the reader",
            lambda place, text=text: build(place, text),
            ("serve", "--model-config-file", "c.txt", *_SERVE),
        )
    batching: dict[str, str | bytes] = {
        "10,000 braces": "max_batch_size {" * 10_000, "no UTF-8": b"\xff", "2^63 rows": "max_batch_size { value: 9223372036854775807 }",
        "a million sizes": "allowed_batch_sizes: 1 " * 300_000, "negative rows": "max_batch_size { value: -1 }", "a number of 5000 digits": "max_batch_size { value: " + "9" * 5000 + " }",
    }  # fmt: skip
    for name, text in batching.items():
        outcome = Outcome.HARMLESS if name.startswith("2^63") else Outcome.REFUSED
        yield Case(
            f"batching/{name}",
            "break the reader, or fill memory",
            lambda place, text=text: build(place, text),
            ("serve", "d=m", "--batching-parameters-file", "c.txt", *_SERVE),
            outcome,
        )


def _golden(**row: Any) -> str:
    tensor = {"name": "x", "dtype": "float32", "shape": [1, 4], "base64": base64.b64encode(bytes(16)).decode(), **row}
    return json.dumps(
        {
            "calls": [{"inputs": [tensor], "outputs": [{**tensor, "name": "y"}]}],
            "tolerance": {"least_db": 60, "most_unequal": 0},
        }
    )


def _beside_models() -> Iterator[Case]:
    """golden.json, which a version is held against before it answers."""
    goldens: dict[str, str | bytes] = {
        "100,000 brackets": "[" * 100_000, "a list": "[]", "no UTF-8": b"\xff", "objects as dtype": _golden(dtype="O"), "a dtype that is a list": _golden(dtype=[["a", "O"]]),
        "a shape of 2^62": _golden(shape=[1 << 62]), "a negative shape": _golden(shape=[-1, -1]), "a shape of text": _golden(shape="ab"), "a dtype of 2^31 bytes": _golden(dtype="V2147483647"),
        "no base64": _golden(base64="\u00e9"), "a name that is a list": _golden(name=["x"]), "a tolerance of text": _golden().replace("60", '"x"'), "a name called as a verdict": _golden(name="x\nPASS"),
        "a number of 5000 digits": _golden().replace("60", "9" * 5000), "calls that are a text": '{"calls": "ab", "tolerance": {}}', "a dtype as code": _golden(dtype="import os"),
    }  # fmt: skip
    files = {f"golden.json/{name}": ("golden.json", content) for name, content in goldens.items()}
    for name, (file, content) in files.items():

        def build(place: Place, file: str = file, content: str | bytes = content) -> None:
            write_artifact(place, "m/1")
            place.write(f"m/1/{file}", content)

        yield Case(name, "break the reader, or run code", build, _SERVED)


def _versions() -> Iterator[Case]:
    """Folders of versions that are not what they seem."""

    def good(place: Place) -> None:
        write_artifact(place, "good")

    changes: dict[str, tuple[Callable[[Place], object], Outcome]] = {
        "a linked version": (lambda place: ((place.here / "m").mkdir(), (place.here / "m" / "1").symlink_to(place.outside)), Outcome.REFUSED),
        "a version linked to the root": (lambda place: ((place.here / "m").mkdir(), (place.here / "m" / "1").symlink_to("/")), Outcome.REFUSED),
        "a version linked to itself": (lambda place: ((place.here / "m").mkdir(), (place.here / "m" / "1").symlink_to("1")), Outcome.REFUSED),
        "a model linked to a file outside": (lambda place: (place.write("m/1/x", b""), (place.here / "m/1/model.onnx").symlink_to(place.secret)), Outcome.REFUSED),
        "a model linked to a device": (lambda place: (place.write("m/1/x", b""), (place.here / "m/1/model.onnx").symlink_to("/dev/zero")), Outcome.REFUSED),
        "a model that is a pipe": (lambda place: (place.write("m/1/x", b""), os.mkfifo(place.here / "m/1/model.onnx")), Outcome.REFUSED),
        "a version of 40 digits": (lambda place: place.write(f"m/{'9' * 40}/model.onnx", good_onnx().SerializeToString()), Outcome.REFUSED),
        "a version of Arabic digits": (lambda place: place.write("m/\u0661/model.onnx", good_onnx().SerializeToString()), Outcome.REFUSED),
        "a version that is a file": (lambda place: place.write("m/1", b"x"), Outcome.REFUSED),
        "two models in a version": (lambda place: (place.write("m/1/a.onnx", b"x"), place.write("m/1/b.onnx", b"x")), Outcome.REFUSED),
        "20,000 versions": (lambda place: [place.write(f"m/{at}/x", b"") for at in range(20_000)], Outcome.REFUSED),
        "links in an artifact": (lambda place: (write_artifact(place, "m/1"), (place.here / "m/1/more").symlink_to(place.outside)), Outcome.REFUSED),
        "an endless model": (lambda place: place.write("m/1/model.onnx", endless_onnx().SerializeToString()), Outcome.HARMLESS),
    }  # fmt: skip
    for name, (change, outcome) in changes.items():
        yield Case(
            f"serve/{name}",
            "read outside, or wait",
            lambda place, change=change: (good(place), change(place)),
            _SERVED,
            outcome,
        )


def cases() -> Iterator[Case]:
    """Yield the cases of folders."""
    yield from _transformers()
    yield from _text_files()
    yield from _beside_models()
    yield from _versions()
