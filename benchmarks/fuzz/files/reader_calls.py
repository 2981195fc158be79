"""Calls of our readers, each with the folder or the file of a case, as the code of a command calls them."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def the_file(folder: Path) -> Path:
    """Return the one file of a case that is called `file`."""
    return next(path for path in sorted(folder.iterdir()) if path.name.startswith("file"))


def check_zip(path: Path) -> None:
    from transload.models.safe_zip import check_safe_zip

    check_safe_zip(path, ignores_case=True)


def read_arrays(path: Path) -> None:
    from transload.models.array_file import map_arrays, read_arrays

    map_arrays(path, path.with_name("scratch"))
    read_arrays(path)


def take_samples(folder: Path) -> None:
    from transload.models.data_sources.data_argument import DataKind, parse_data, source_digest
    from transload.models.data_sources.take_samples import take_samples
    from transload.models.job import Job
    from transload.models.job_records import SourceSamplesOptions
    from transload.models.signature import TensorSpec

    path = the_file(folder)
    pictures = path.is_dir()
    argument = parse_data(f"{path}?range=0..1" if pictures else str(path))
    spec = TensorSpec("x", "float32", ("batch", 3, 8, 8) if pictures else ("batch", 4))
    options = SourceSamplesOptions(
        kind=argument.kind, place=argument.place, images=argument.images, table=argument.table,
        sha256=source_digest(DataKind(argument.kind), argument.place),
        inputs=(spec,),
    )  # fmt: skip
    out = folder / "out"
    out.mkdir()
    take_samples(Job({}, out, options.to_json()))


def read_artifact(folder: Path) -> None:
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


def read_facts(folder: Path) -> None:
    import json

    from transload.converters.readers.reader_records import ArtifactFacts, FileFacts
    from transload.models.job_records import DataFacts
    from transload.models.untrusted_files import read_json

    try:
        document = read_json(the_file(folder))
    except ValueError:
        return
    records: tuple[Any, ...] = (FileFacts, ArtifactFacts, DataFacts)
    for record in records:
        if isinstance(document, dict) and record.__name__ in document:
            json.dumps(record.from_json(document[record.__name__]).to_json())


def read_pipeline(path: Path) -> None:
    from transload.pipeline.options.request import read_request

    request = read_request(path, {"device": None, "bench": {"rounds": 4}})
    _, _ = request.targets, request.ref


def read_run(folder: Path) -> None:
    """Read a run's folder as `report` and `compare` do."""
    from rich.console import Console

    from transload.pipeline.result.compare.run_comparison import compare_runs
    from transload.pipeline.result.compare.run_files import read_run
    from transload.pipeline.show.compare_text import render_compare_markdown, terminal_lines
    from transload.pipeline.show.markdown import render_markdown
    from transload.pipeline.show.terminal import print_result

    result = read_run(folder)
    render_markdown(result)
    with (folder / "printed").open("w") as file:
        print_result(result, Console(file=file, width=100))
    comparison = compare_runs(result, result)
    render_compare_markdown(comparison)
    terminal_lines(comparison)


def find_artifact(folder: Path) -> None:
    from transload.models.formats import Format
    from transload.pipeline.result.verified_artifact import find_artifact

    find_artifact(folder, (Format.ONNX, Format.TFLITE))


def read_index(path: Path) -> None:
    from transload.models.loading.weight_files import shards_of

    shards_of(path)


def read_config(folder: Path) -> None:
    from transload.models.loading import transformers_models

    (folder / "model.safetensors").touch()
    config, *_ = transformers_models.folder_files(folder)
    transformers_models._document(config)


def read_models(path: Path) -> None:
    from transload.serving.server.repository.model_config import read_config_file

    for config in read_config_file(path):
        config.policy.choose((1, 2, 3))


def read_batching(path: Path) -> None:
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


def check_version(folder: Path) -> None:
    from transload.serving.server.repository.version_check import answers_rows_alike, check_version

    session: Any = _Echo()
    check_version(session, folder)
    answers_rows_alike(session, folder)


def check_pt2(path: Path) -> None:
    from transload.converters.readers.file_content import check_content
    from transload.converters.readers.pt2.pt2_file import check_pt2
    from transload.models.exported_program import operators, recorded_signature
    from transload.models.formats import Format

    check_content(path, Format.PT2)
    check_pt2(path)
    recorded_signature(path)
    operators(path)


def check_torchscript(path: Path) -> None:
    from transload.converters.readers.file_content import check_content
    from transload.converters.readers.torchscript.torchscript_file import check_torchscript
    from transload.models.formats import Format

    check_content(path, Format.TORCHSCRIPT)
    check_torchscript(path)


def read_weights(path: Path) -> None:
    from transload.models.loading.weight_files import fit_names, read_weight_file

    state = read_weight_file(path)
    fit_names(state, {"inner.weight", "inner.bias"})


def load_weights(path: Path) -> None:
    import torch

    from transload.models.loading.weight_files import load_weight_file

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 3)

    load_weight_file(Net(), path)


def check_onnx(path: Path) -> None:
    from transload.converters.readers.file_content import check_content
    from transload.converters.readers.onnx.onnx_file import OnnxFile, check_external, parse_onnx
    from transload.models.formats import Format

    check_content(path, Format.ONNX)
    file = OnnxFile(parse_onnx(path), path)
    file.check_nodes()
    check_external(file.model, path)
    file.load_external()
    file.sort()
    file.declare(file.signature(()))
    file.has_loops()


def check_saved_model(path: Path) -> None:
    from transload.converters.readers.file_content import refuse_links
    from transload.converters.readers.saved_model.saved_model_folder import read_saved_model, signature_of_saved_model

    refuse_links(path, "SavedModel")
    signature_of_saved_model(read_saved_model(path), path)


def check_tflite(path: Path) -> None:
    from transload.converters.readers.file_content import check_content
    from transload.converters.readers.tflite.tflite_file import TfliteFile
    from transload.models.formats import Format

    check_content(path, Format.TFLITE)
    TfliteFile(path).inputs()


def check_keras(path: Path) -> None:
    from transload.converters.readers.file_content import check_content
    from transload.converters.readers.keras.keras_file import check_keras
    from transload.models.formats import Format

    check_content(path, Format.KERAS)
    check_keras(path)
