"""Our readers of strangers' files and texts: how a case of each is made, and what reads it.

A reader is given the folder of its case alone. It returns a value or raises TransloadError; an error that its own
docstring promises to its caller, which turns it into a sentence, stands in `refusals`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from byte_mutations import (
    Mutation,
    Rng,
    mutate_bytes,
    mutate_encoded_text,
    mutate_json,
    mutate_numbers,
    mutate_protobuf,
)
from container_mutations import mutate_member, mutate_npy, mutate_png, mutate_safetensors, mutate_zip
from reader_calls import (
    check_keras,
    check_onnx,
    check_pt2,
    check_saved_model,
    check_tflite,
    check_torchscript,
    check_version,
    check_zip,
    find_artifact,
    load_weights,
    read_arrays,
    read_artifact,
    read_batching,
    read_config,
    read_facts,
    read_index,
    read_models,
    read_pipeline,
    read_run,
    read_weights,
    take_samples,
    the_file,
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
    native: bool = False  # it calls code of a library in C++, in the product in a worker alone: that may die of a file


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


mutate_arrays = partial(mutate_zip, members=lambda rng, _, content: mutate_npy(rng, content))
mutate_archive = partial(mutate_zip, members=mutate_member)


def _of_file(read: Read) -> Read:
    return lambda folder: read(the_file(folder))


def _facts_seed(rng: Rng, seeds: Path, folder: Path) -> None:
    signature = json.loads((seeds / "contract.json").read_text())["signature"]
    document = {
        "FileFacts": {"signature": signature, "external": {"w.bin": "0" * 64}, "peak_rss_bytes": 1},
        "ArtifactFacts": {"target": "onnx:int8", "signature": signature, "flex": ["FlexErf"]},
        "DataFacts": {"test": 3, "calibration": 2, "labels": True, "random": False},
    }
    (folder / "file.json").write_bytes(mutate_json(rng, json.dumps(document).encode()))


def _run_seed(rng: Rng, seeds: Path, folder: Path) -> None:
    """Write a folder that `convert` wrote: its document, an artifact, and a script that repeats a step."""
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


def mutate_in_keras(rng: Rng, name: str, content: bytes) -> bytes:
    return mutate_bytes(rng, content) if name.endswith(".h5") else mutate_member(rng, name, content)


mutate_keras = partial(mutate_zip, members=mutate_in_keras)


def _image_seed(rng: Rng, seeds: Path, folder: Path) -> None:
    mutated("image.png image.jpg image.gif image.bmp image.tiff image.webp", mutate_png, "file/a/1*")(
        rng, seeds, folder
    )
    shutil.copyfile(seeds / "image.png", folder / "file" / "a" / "0.png")


_ZIPS = "arrays.npz packed.npz"
IN_SAVED_MODEL: dict[str, Mutation] = {".pb": mutate_protobuf}
mutate_tables: Mutation = lambda rng, data: (mutate_numbers if rng.random() < 0.6 else mutate_bytes)(rng, data)  # noqa: E731

FILE_READERS = (
    Reader("plain zip", "plain", mutated(_ZIPS, mutate_archive), _of_file(check_zip), 10, (zipfile.BadZipFile,)),
    Reader("npz arrays", "plain", mutated(_ZIPS, mutate_archive), _of_file(read_arrays)),
    Reader("npz arrays, headers", "plain", mutated(_ZIPS, mutate_arrays), _of_file(read_arrays)),
    Reader("npz samples", "plain", mutated(_ZIPS, mutate_archive), take_samples, 6),
    Reader("csv samples", "plain", mutated("table.csv", mutate_encoded_text), take_samples, 6, native=True),
    Reader("parquet samples", "plain", mutated("table.parquet", mutate_tables), take_samples, 6, native=True),
    Reader("image samples", "plain", _image_seed, take_samples, 6, native=True),
    Reader("artifact.json", "plain", mutated("contract.json", mutate_json, "artifact.json"), read_artifact),
    Reader("facts of a worker", "plain", _facts_seed, read_facts, 6),
    Reader("pipeline file", "plain", mutated("pipeline.toml", mutate_encoded_text), _of_file(read_pipeline)),
    Reader("run.json", "plain", mutated("run.json", mutate_json, "run.json"), read_run, 6),
    Reader("run folder for bundle", "plain", _run_seed, find_artifact, 6),
    Reader("index of weights", "plain", mutated("model.safetensors.index.json", mutate_json),
           _of_file(read_index), 6),
    Reader("transformers config", "plain", mutated("config.json", mutate_json, "config.json"), read_config, 6),
    Reader("model_config_list", "plain", mutated("models.config", mutate_encoded_text), _of_file(read_models), 6),
    Reader("batching parameters", "plain", mutated("batching.config", mutate_encoded_text), _of_file(read_batching), 6),
    Reader("golden.json", "plain", mutated("golden.json", mutate_json, "golden.json"), check_version, 6),
    Reader("onnx", "plain", mutated("good.onnx contract.onnx", mutate_protobuf), _of_file(check_onnx), 12),
    Reader("onnx with external data", "plain", mutated("external.onnx", mutate_protobuf, "", "w.bin"),
           _of_file(check_onnx), 6),
    Reader("pt2", "torch", mutated("good.pt2 contract.pt2", mutate_archive), _of_file(check_pt2), 12),
    Reader("TorchScript", "torch", mutated("good.pt contract.pt", mutate_archive), _of_file(check_torchscript), 12),
    Reader("checkpoint", "torch", mutated("weights.pt lightning.ckpt", mutate_archive), _of_file(read_weights)),
    Reader("checkpoint of old", "torch", mutated("old.pt", mutate_bytes), _of_file(read_weights), 6),
    Reader("safetensors", "torch", mutated("weights.safetensors", mutate_safetensors), _of_file(read_weights), 6),
    Reader("weights into a model", "torch", mutated("weights.safetensors", mutate_safetensors), _of_file(load_weights),
           6),
    Reader("SavedModel", "tensorflow", mutated_folder("saved served", IN_SAVED_MODEL), _of_file(check_saved_model), 12),
    Reader("tflite", "tensorflow", mutated("good.tflite contract.tflite flex.tflite", mutate_tables),
           _of_file(check_tflite), 12, native=True),
    Reader("keras", "tensorflow", mutated("good.keras deep.keras", mutate_keras),
           _of_file(check_keras), 12, native=True),
)  # fmt: skip

READERS = {reader.name: reader for reader in (*FILE_READERS, *(
    Reader(text.name, text.framework, text.write, text.read, text.share, text.refusals) for text in TEXT_READERS
))}  # fmt: skip
