"""Ask a server with clients of the Open Inference Protocol that others wrote, and compare all their answers.

    python benchmarks/serving/oip_clients.py GRPC_HOST:PORT HTTP_HOST:PORT MODEL [--out FILE.json]

It needs tritonclient[grpc,http] and kserve, which do not resolve beside transload (tritonclient 2.73.0: ml-dtypes below
0.6), so run it in an environment of their own. Each client asks in each of its forms (typed, raw, JSON, binary in
and out); the outputs must be equal bit by bit, and what each says about the model must be the same. kserve gets a
process of its own: its messages have the names of tritonclient's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np

Answers = dict[str, np.ndarray]
DTYPES = {
    "BOOL": "bool", "FP16": "float16", "FP32": "float32", "FP64": "float64",
    **{f"{kind}{bits}": f"{kind.lower()}{bits}" for kind in ("INT", "UINT") for bits in (8, 16, 32, 64)},
}  # fmt: skip
DATATYPES = {dtype: datatype for datatype, dtype in DTYPES.items()}


def main() -> None:
    """Ask, compare, and print what was compared."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("grpc")
    parser.add_argument("http")
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--kserve", type=Path, help=argparse.SUPPRESS)  # a folder: the process for kserve
    options = parser.parse_args()
    if options.kserve:
        feeds = dict(np.load(options.kserve / "feeds.npz"))
        answers = asyncio.run(kserve(options.grpc, f"http://{options.http}", options.model, feeds))
        for form, answer in answers.items():
            np.savez(options.kserve / f"{form}.npz", **answer)  # type: ignore[arg-type]
        return
    feeds, outputs = describe(options.grpc, options.http, options.model, options.batch)
    answers = dict(triton_grpc(options.grpc, options.model, feeds))
    answers |= dict(triton_http(options.http, options.model, feeds, outputs))
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "feeds.npz", **feeds)  # type: ignore[arg-type]
        subprocess.run([sys.executable, *sys.argv, "--kserve", folder], check=True)
        paths = sorted(path for path in Path(folder).iterdir() if path.name != "feeds.npz")
        answers |= {path.stem: dict(np.load(path)) for path in paths}
    first = next(iter(answers.values()))
    for form, answer in answers.items():
        assert sorted(answer) == sorted(first), form
        for name, array in answer.items():
            np.testing.assert_array_equal(array, first[name], err_msg=form, strict=True)
    result = {
        "clients": {name: metadata.version(name) for name in ("tritonclient", "kserve")},
        "inputs": {name: [str(array.dtype), list(array.shape)] for name, array in feeds.items()},
        "outputs": {name: [str(array.dtype), list(array.shape)] for name, array in first.items()},
        "equal": list(answers),
    }
    text = json.dumps(result, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


def describe(grpc: str, http: str, model: str, batch: int) -> tuple[Answers, list[str]]:
    """Return inputs for the model by its metadata, and the names of its outputs; ask both clients everything else."""
    rng = np.random.default_rng(0)
    documents = []
    for kind, address in (("grpc", grpc), ("http", http)):
        module = import_module(f"tritonclient.{kind}")
        client = module.InferenceServerClient(address)
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready(model)
        assert not client.is_model_ready("no-such-model")
        as_json = {"as_json": True} if kind == "grpc" else {}
        index = client.get_model_repository_index(**as_json)
        rows = index["models"] if as_json else index
        assert {"name": model, "state": "READY"}.items() <= next(row for row in rows if row["name"] == model).items()
        assert client.get_inference_statistics(model, **as_json)["model_stats"][0]["name"] == model
        config = client.get_model_config(model, **as_json)
        config = config["config"] if as_json else config
        documents.append((
            client.get_server_metadata(**as_json), shapes_of(client.get_model_metadata(model, **as_json)),
            [(row["name"], row["data_type"], [int(size) for size in row.get("dims", ())]) for row in config["input"]],
        ))  # fmt: skip
        client.close()
    assert documents[0] == documents[1], documents
    shapes = documents[0][1]
    feeds = {
        name: (rng.random([batch if size < 0 else size for size in shape]) * 4).astype(DTYPES[datatype])
        for name, (datatype, shape) in shapes["inputs"].items()
    }
    return feeds, list(shapes["outputs"])


def shapes_of(document: dict[str, Any]) -> dict[str, dict[str, tuple[str, list[int]]]]:
    """Return {inputs, outputs} by name; gRPC writes 64-bit integers as strings."""
    return {
        side: {row["name"]: (row["datatype"], [int(size) for size in row["shape"]]) for row in document[side]}
        for side in ("inputs", "outputs")
    }


def triton_grpc(address: str, model: str, feeds: Answers) -> Iterator[tuple[str, Answers]]:
    """Ask over gRPC: raw contents, plain and compressed."""
    module = import_module("tritonclient.grpc")
    with module.InferenceServerClient(address) as client:
        for compression in (None, "gzip", "deflate"):
            reply = client.infer(model, inputs_of(module, feeds), compression_algorithm=compression)
            names = [row.name for row in reply.get_response().outputs]
            yield f"tritonclient gRPC {compression or 'plain'}", {name: reply.as_numpy(name) for name in names}


def triton_http(address: str, model: str, feeds: Answers, names: list[str]) -> Iterator[tuple[str, Answers]]:
    """Ask over HTTP: JSON and binary, in and out, plain and compressed."""
    module = import_module("tritonclient.http")
    with module.InferenceServerClient(address) as client:
        for bytes_in in (True, False):
            for bytes_out in (True, False):
                for packed in (None, "gzip", "deflate"):
                    reply = client.infer(
                        model, inputs_of(module, feeds, binary_data=bytes_in), request_compression_algorithm=packed,
                        outputs=[module.InferRequestedOutput(name, binary_data=bytes_out) for name in names],
                        response_compression_algorithm=packed,
                    )  # fmt: skip
                    form = f"{'binary' if bytes_in else 'JSON'} in, {'binary' if bytes_out else 'JSON'} out"
                    packing = packed or "plain"
                    yield f"tritonclient HTTP {form}, {packing}", {name: reply.as_numpy(name) for name in names}


def inputs_of(module: Any, feeds: Answers, **how: bool) -> list[Any]:
    """Return the inputs of a request by tritonclient."""
    rows = []
    for name, array in feeds.items():
        row = module.InferInput(name, list(array.shape), DATATYPES[array.dtype.name])
        rows.append(row.set_data_from_numpy(array, **how))
    return rows


async def kserve(grpc: str, url: str, model: str, feeds: Answers) -> dict[str, Answers]:
    """Ask with KServe's clients: typed and raw over gRPC, JSON and binary over HTTP."""
    from kserve.inference_client import InferenceGRPCClient, InferenceRESTClient, RESTConfig
    from kserve.protocol.infer_type import InferInput, InferRequest

    answers: dict[str, Answers] = {}
    rest = InferenceRESTClient(RESTConfig(protocol="v2"))
    async with InferenceGRPCClient(grpc) as client:
        assert await client.is_server_ready()
        assert await client.is_model_ready(model)
        assert await rest.is_server_ready(url)
        assert await rest.is_model_ready(url, model)
        for raw in (True, False):
            rows = []
            for name, array in feeds.items():
                row = InferInput(name, list(array.shape), DATATYPES[array.dtype.name])
                row.set_data_from_numpy(array, binary_data=raw)
                rows.append(row)
            request = InferRequest(model, rows, request_id="1")
            for form, reply in (
                (f"kserve gRPC {'raw' if raw else 'typed'}", await client.infer(request)),
                (f"kserve HTTP {'binary' if raw else 'JSON'} in", await rest.infer(url, request, model)),
            ):
                assert reply.id == "1", form
                answers[form] = {output.name: output.as_numpy() for output in reply.outputs}
    await rest.close()
    return answers


if __name__ == "__main__":
    main()
