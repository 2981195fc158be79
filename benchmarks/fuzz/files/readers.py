"""Our readers of strangers' files and texts: how a case of each is made, and what reads it.

A reader is given the folder of its case alone. It returns a value or raises TransloadError; an error that its own
docstring promises to its caller, which turns it into a sentence, stands in `refusals`.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from byte_mutations import (
    Mutation,
    Rng,
    mutate_bytes,
    mutate_encoded_text,
    mutate_json,
    mutate_member,
    mutate_npy,
    mutate_numbers,
    mutate_png,
    mutate_protobuf,
    mutate_safetensors,
    mutate_zip,
)
from text_readers import TEXT_READERS

Read = Callable[[Path], object]


@dataclass(frozen=True)
class Reader:
    """A reader: its seeds, how they are changed, where the changed file lies in the case's folder, what reads it."""

    name: str
    framework: str  # whose libraries its process has: "plain", "torch", "tensorflow"
    write: Callable[[Rng, Path, Path], None]  # a case from the folder of seeds into the case's folder
    read: Read
    share: int = 10  # of the cases, beside the other readers
    refusals: tuple[type[BaseException], ...] = ()


def mutated(names: str, mutation: Mutation, to: str = "", *beside: str) -> Callable[[Rng, Path, Path], None]:
    """Return what writes a mutation of one of the seeds `names`, called `to`, with the seeds `beside` unchanged."""

    def write(rng: Rng, seeds: Path, folder: Path) -> None:
        seed = seeds / rng.choice(names.split())
        path = folder / (to.replace("*", seed.suffix) or f"file{seed.suffix}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(mutation(rng, seed.read_bytes()))
        for name in beside:
            source, _, target = name.partition(">")
            (folder / (target or source)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(seeds / source, folder / (target or source))

    return write


def mutated_folder(names: str, mutations: dict[str, Mutation]) -> Callable[[Rng, Path, Path], None]:
    """Return what writes a copy of a folder of seeds as `file`, one of its files changed by its name's suffix."""

    def write(rng: Rng, seeds: Path, folder: Path) -> None:
        copy = folder / "file"
        shutil.copytree(seeds / rng.choice(names.split()), copy)
        files = sorted(path for path in copy.rglob("*") if path.is_file())
        path = rng.choice([*files, *[path for path in files if path.suffix == ".pb"] * 6])
        if rng.random() < 0.03:
            path.unlink()
        else:
            path.write_bytes(mutations.get(path.suffix, mutate_bytes)(rng, path.read_bytes()))

    return write


mutate_archive = partial(mutate_zip, members=mutate_member)


def the_file(folder: Path) -> Path:
    """Return the one file of a case that is called `file`."""
    return next(path for path in sorted(folder.iterdir()) if path.name.startswith("file"))


def _of_file(read: Read) -> Read:
    return lambda folder: read(the_file(folder))


def _check_zip(path: Path) -> None:
    from transload.models.plain_zip import check_plain_zip

    check_plain_zip(path, ignores_case=True)


def _read_arrays(path: Path) -> None:
    from transload.models.array_file import map_arrays, read_arrays

    map_arrays(path, path.with_name("scratch"))
    read_arrays(path)


def _take_samples(folder: Path) -> None:
    from transload.models.data_sources.data_argument import DataKind, parse_data, source_digest
    from transload.models.data_sources.take_samples import take_samples
    from transload.models.job import Job
    from transload.models.job_records import SourceSamplesOptions
    from transload.models.signature import Signature, TensorSpec

    path = the_file(folder)
    pictures = path.is_dir()
    argument = parse_data(f"{path}?range=0..1" if pictures else str(path))
    spec = TensorSpec("x", "float32", ("batch", 3, 8, 8) if pictures else ("batch", 4))
    options = SourceSamplesOptions(
        kind=argument.kind, place=argument.place, images=argument.images, table=argument.table,
        sha256=source_digest(DataKind(argument.kind), argument.place),
        signature=Signature((spec,), (TensorSpec("y", "float32", ("batch",)),)),
    )  # fmt: skip
    out = folder / "out"
    out.mkdir()
    take_samples(Job({}, out, options.to_json()))


def _read_artifact(folder: Path) -> None:
    from transload.models.artifact import read_artifact
    from transload.models.job_records import DataFacts
    from transload.models.probes.sizes import example_sizes
    from transload.models.signature import Signature, batch_axis, bounds_of

    artifact = read_artifact(folder)
    signature = artifact.signature
    if Signature.from_json(signature.to_json()) != signature:
        raise AssertionError("a signature is not read as it is written")
    batch_axis(signature.inputs)
    bounds_of(signature.inputs)
    example_sizes(signature.inputs, 2)
    str(artifact.target), artifact.path, DataFacts(test=1, calibration=1).to_json()


def _read_facts(folder: Path) -> None:
    import json

    from transload.converters.intake.intake_records import ArtifactFacts, FileFacts
    from transload.models.foreign_files import read_json
    from transload.models.job_records import DataFacts

    try:
        document = read_json(the_file(folder))
    except ValueError:
        return
    records: tuple[Any, ...] = (FileFacts, ArtifactFacts, DataFacts)
    for record in records:
        if isinstance(document, dict) and record.__name__ in document:
            json.dumps(record.from_json(document[record.__name__]).to_json())


def _facts_seed(rng: Rng, seeds: Path, folder: Path) -> None:
    import json

    signature = json.loads((seeds / "contract.json").read_text())["signature"]
    document = {
        "FileFacts": {"signature": signature, "external": {"w.bin": "0" * 64}, "peak_rss_bytes": 1},
        "ArtifactFacts": {"target": "onnx:int8", "signature": signature, "flex": ["FlexErf"]},
        "DataFacts": {"test": 3, "calibration": 2, "labels": True, "random": False},
    }
    (folder / "file.json").write_bytes(mutate_json(rng, json.dumps(document).encode()))


def _read_pipeline(path: Path) -> None:
    from transload.pipeline.request import read_request

    request = read_request(path, {"device": None, "bench": {"rounds": 4}})
    _, _ = request.targets, request.ref


def _read_run(folder: Path) -> None:
    """Read a run's folder as `report` and `compare` do."""
    from rich.console import Console

    from transload.pipeline.compare.run_comparison import compare_runs
    from transload.pipeline.compare.run_files import read_run
    from transload.pipeline.report.compare_text import render_compare_markdown, terminal_lines
    from transload.pipeline.report.markdown import render_markdown
    from transload.pipeline.report.terminal import print_result

    result = read_run(folder)
    render_markdown(result)
    with (folder / "printed").open("w") as file:
        print_result(result, Console(file=file, width=100))
    comparison = compare_runs(result, result)
    render_compare_markdown(comparison)
    terminal_lines(comparison)


def _find_artifact(folder: Path) -> None:
    from transload.models.formats import Format
    from transload.pipeline.result.verified_artifact import find_artifact

    find_artifact(folder, (Format.ONNX, Format.TFLITE))


def _run_seed(rng: Rng, seeds: Path, folder: Path) -> None:
    """Write a folder that `convert` wrote: its document, an artifact, and a script that repeats a step."""
    import hashlib
    import json

    artifact = folder / "onnx"
    (folder / "repeat").mkdir()
    artifact.mkdir()
    content = (seeds / "good.onnx").read_bytes()
    (artifact / "model.onnx").write_bytes(content)
    shutil.copyfile(seeds / "contract.json", artifact / "artifact.json")
    digest = hashlib.sha256(content).hexdigest()
    row = {"name": "onnx", "format": "onnx", "precision": "fp32", "path": "onnx/model.onnx", "status": "verified"}
    probe = {"artifact": "onnx", "values": "samples", "tolerance": {"sqnr_db": 60.5}}
    documents = {
        "convert.json": {"artifacts": [row | {"sha256": digest}], "drift": [probe], "probes": [probe]},
        "repeat/step.json": {"job": {"inputs": {"data": "/nowhere"}}},
    }
    changed = rng.choice([*documents])
    for name, document in documents.items():
        data = json.dumps(document).encode()
        (folder / name).write_bytes(mutate_json(rng, data) if name == changed else data)


def _read_index(path: Path) -> None:
    from transload.models.loading.weight_files import shards_of

    shards_of(path)


def _read_config(folder: Path) -> None:
    from transload.models.loading import transformers_models

    (folder / "model.safetensors").touch()
    config, *_ = transformers_models.folder_files(folder)
    transformers_models._document(config)


def _read_models(path: Path) -> None:
    from transload.serving.server.repository.model_config import read_config_file

    for config in read_config_file(path):
        config.policy.choose((1, 2, 3))


def _read_batching(path: Path) -> None:
    from transload.serving.server.repository.batching_parameters import read_batching_file

    read_batching_file(path)


class _Echo:
    """A session that answers zeros of the recorded shapes, for what reads files beside a model."""

    def __init__(self) -> None:
        from transload.models.signature import Signature, TensorSpec

        specs = [TensorSpec(name, "float32", ("batch", 4)) for name in "xy"]
        self.signature = Signature((specs[0],), (specs[1],))

    def run(self, feeds: Any) -> Any:
        import numpy as np

        from transload.models.signature import check_feeds

        check_feeds(self.signature.inputs, feeds)
        return {"y": np.zeros(feeds["x"].shape, np.float32)}


def _check_version(folder: Path) -> None:
    from transload.serving.server.repository.version_check import answers_rows_alike, check_version

    session: Any = _Echo()
    check_version(session, folder)
    answers_rows_alike(session, folder)


def _check_pt2(path: Path) -> None:
    from transload.converters.intake.file_content import check_content
    from transload.converters.intake.pt2_file import check_pt2
    from transload.models.exported_program import operators, recorded_signature
    from transload.models.formats import Format

    check_content(path, Format.PT2)
    check_pt2(path)
    recorded_signature(path)
    operators(path)


def _check_torchscript(path: Path) -> None:
    from transload.converters.intake.file_content import check_content
    from transload.converters.intake.torchscript_file import check_torchscript
    from transload.models.formats import Format

    check_content(path, Format.TORCHSCRIPT)
    check_torchscript(path)


def _read_weights(path: Path) -> None:
    from transload.models.loading.weight_files import fit_names, read_weight_file

    state = read_weight_file(path)
    fit_names(state, {"inner.weight", "inner.bias"})


def _load_weights(path: Path) -> None:
    import torch

    from transload.models.loading.weight_files import load_weight_file

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 3)

    load_weight_file(Net(), path)


def _check_onnx(path: Path) -> None:
    from transload.converters.intake.file_content import check_content
    from transload.converters.intake.onnx_file import OnnxFile, check_external, parse_onnx
    from transload.models.formats import Format

    check_content(path, Format.ONNX)
    file = OnnxFile(parse_onnx(path), path)
    file.check_nodes()
    check_external(file.model, path)
    file.load_external()
    file.sort()
    file.declare(file.signature(()))
    file.has_loops()


def _check_saved_model(path: Path) -> None:
    from transload.converters.intake.file_content import refuse_links
    from transload.converters.intake.saved_model_folder import read_saved_model, signature_of_saved_model

    refuse_links(path, "SavedModel")
    signature_of_saved_model(read_saved_model(path), path)


def _check_tflite(path: Path) -> None:
    from transload.converters.intake.file_content import check_content
    from transload.converters.intake.tflite_file import TfliteFile
    from transload.models.formats import Format

    check_content(path, Format.TFLITE)
    TfliteFile(path).inputs()


def _check_keras(path: Path) -> None:
    from transload.converters.intake.file_content import check_content
    from transload.converters.intake.keras_file import check_keras
    from transload.models.formats import Format

    check_content(path, Format.KERAS)
    check_keras(path)


def _broken_hdf5(rng: Rng, name: str, content: bytes) -> bytes:
    return mutate_bytes(rng, content) if name.endswith(".h5") else mutate_member(rng, name, content)


def _image_seed(rng: Rng, seeds: Path, folder: Path) -> None:
    mutated("image.png image.jpg image.gif image.bmp image.tiff image.webp", mutate_png, "file/a/1*")(
        rng, seeds, folder
    )
    shutil.copyfile(seeds / "image.png", folder / "file" / "a" / "0.png")


_ZIPS = "arrays.npz packed.npz"
_PB: dict[str, Mutation] = {".pb": mutate_protobuf}
_FLAT: Mutation = lambda rng, data: (mutate_numbers if rng.random() < 0.6 else mutate_bytes)(rng, data)  # noqa: E731

FILE_READERS = (
    Reader("plain zip", "plain", mutated(_ZIPS, mutate_archive), _of_file(_check_zip), 10, (zipfile.BadZipFile,)),
    Reader("npz arrays", "plain", mutated(_ZIPS, mutate_archive), _of_file(_read_arrays)),
    Reader("npz arrays, headers", "plain", mutated(_ZIPS, partial(mutate_zip, members=lambda r, _, c: mutate_npy(r, c))),
           _of_file(_read_arrays)),
    Reader("npz samples", "plain", mutated(_ZIPS, mutate_archive), _take_samples, 6),
    Reader("csv samples", "plain", mutated("table.csv", mutate_encoded_text), _take_samples, 6),
    Reader("parquet samples", "plain", mutated("table.parquet", _FLAT), _take_samples, 6),
    Reader("image samples", "plain", _image_seed, _take_samples, 6),
    Reader("artifact.json", "plain", mutated("contract.json", mutate_json, "artifact.json"), _read_artifact),
    Reader("facts of a worker", "plain", _facts_seed, _read_facts, 6),
    Reader("pipeline file", "plain", mutated("pipeline.toml", mutate_encoded_text), _of_file(_read_pipeline)),
    Reader("run.json", "plain", mutated("run.json", mutate_json, "run.json"), _read_run, 6),
    Reader("run folder for bundle", "plain", _run_seed, _find_artifact, 6),
    Reader("index of weights", "plain", mutated("model.safetensors.index.json", mutate_json), _of_file(_read_index), 6),
    Reader("transformers config", "plain", mutated("config.json", mutate_json, "config.json"), _read_config, 6),
    Reader("model_config_list", "plain", mutated("models.config", mutate_encoded_text), _of_file(_read_models), 6),
    Reader("batching parameters", "plain", mutated("batching.config", mutate_encoded_text), _of_file(_read_batching), 6),
    Reader("golden.json", "plain", mutated("golden.json", mutate_json, "golden.json"), _check_version, 6),
    Reader("warm-up requests", "plain", mutated("warm_up", mutate_protobuf, "assets.extra/tf_serving_warmup_requests"),
           _check_version, 6),
    Reader("warm-up record", "plain", mutated("warm_up", mutate_bytes, "assets.extra/tf_serving_warmup_requests"),
           _check_version, 3),
    Reader("onnx", "plain", mutated("good.onnx contract.onnx", mutate_protobuf), _of_file(_check_onnx), 12),
    Reader("onnx with external data", "plain", mutated("external.onnx", mutate_protobuf, "", "w.bin"),
           _of_file(_check_onnx), 6),
    Reader("pt2", "torch", mutated("good.pt2 contract.pt2", mutate_archive), _of_file(_check_pt2), 12),
    Reader("TorchScript", "torch", mutated("good.pt contract.pt", mutate_archive), _of_file(_check_torchscript), 12),
    Reader("checkpoint", "torch", mutated("weights.pt lightning.ckpt", mutate_archive), _of_file(_read_weights)),
    Reader("checkpoint of old", "torch", mutated("old.pt", mutate_bytes), _of_file(_read_weights), 6),
    Reader("safetensors", "torch", mutated("weights.safetensors", mutate_safetensors), _of_file(_read_weights), 6),
    Reader("weights into a model", "torch", mutated("weights.safetensors", mutate_safetensors), _of_file(_load_weights),
           6),
    Reader("SavedModel", "tensorflow", mutated_folder("saved served", _PB), _of_file(_check_saved_model), 12),
    Reader("tflite", "tensorflow", mutated("good.tflite contract.tflite flex.tflite", _FLAT), _of_file(_check_tflite),
           12),
    Reader("keras", "tensorflow", mutated("good.keras deep.keras", partial(mutate_zip, members=_broken_hdf5)),
           _of_file(_check_keras), 12),
)  # fmt: skip

READERS = {reader.name: reader for reader in (*FILE_READERS, *(
    Reader(text.name, text.framework, text.write, text.read, text.share, text.refusals) for text in TEXT_READERS
))}  # fmt: skip
