"""Ask a server which inputs and outputs a model has, in the protocol of the model's URL.

describe   options ModelUrl   -> {inputs, outputs}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ...models.errors import BadRequest, SessionLost
from ...models.job import Facts, Job, JsonRecord
from ..wire.oip_messages import SERVICE, messages
from ..wire.oip_tensors import BY_NAME
from ..wire.tensor_proto import BY_NUMBER
from ..wire.tfserving_messages import stock
from .grpc_link import GrpcLink
from .http_link import Link
from .model_url import ModelUrl, ServedName
from .tfserving_grpc_client import set_model

_TIMEOUT_S = 20.0
_SIGNATURE = "serving_default"


@dataclass(frozen=True, kw_only=True)
class DeclaredTensor(JsonRecord):
    """An input or output as a server declares it; an axis of any size is -1, and has no name."""

    name: str
    dtype: str  # a numpy name
    shape: tuple[int, ...] | None  # None: of any rank


@dataclass(frozen=True, kw_only=True)
class DeclaredModel(Facts):
    """The inputs and outputs of a model as a server declares them, in an order that means nothing."""

    inputs: tuple[DeclaredTensor, ...]
    outputs: tuple[DeclaredTensor, ...]


def describe(job: Job) -> Mapping[str, Any]:
    """Ask the server of a model's URL for its inputs and outputs: ModelUrl -> DeclaredModel.

    Raises BadRequest where there is no such model, or a dtype of it is not carried by any format here; SessionLost
    where the server gives no answer, or none that can be read.
    """
    url = ModelUrl.from_json(job.options)
    try:
        return _ASK[url.runtime](url).to_json()
    except SessionLost as error:
        raise SessionLost(
            f"{url.text}: {error.what}", fix="check host, port and model, and that it is started"
        ) from error


def _ask_tfserving_grpc(url: ModelUrl) -> DeclaredModel:
    request = stock().GetModelMetadataRequest(metadata_field=["signature_def"])
    set_model(request.model_spec, url.model)
    method = "/tensorflow.serving.PredictionService/GetModelMetadata"
    with closing(GrpcLink(url.address, _TIMEOUT_S)) as link:
        reply, _ = link.ask(method, request, stock().GetModelMetadataResponse)
    signatures = stock().SignatureDefMap()
    signatures.ParseFromString(reply.metadata["signature_def"].value)
    return _of_tfserving(url, signatures)


def _ask_tfserving_rest(url: ModelUrl) -> DeclaredModel:
    from google.protobuf.json_format import ParseDict, ParseError

    with closing(Link(url.address, _TIMEOUT_S)) as link:
        document, _ = link.ask("GET", f"/v1/models/{url.model}/metadata", b"")
    try:
        signatures = ParseDict(document["metadata"]["signature_def"], stock().SignatureDefMap())
    except (LookupError, TypeError, ParseError) as error:
        raise SessionLost(f"{url.address} answers with no metadata", fix="check that it is TF Serving") from error
    return _of_tfserving(url, signatures)


def _of_tfserving(url: ModelUrl, signatures: Any) -> DeclaredModel:
    if _SIGNATURE not in signatures.signature_def:
        names = ", ".join(sorted(signatures.signature_def)) or "none"
        raise BadRequest(
            f"{url.text} has no signature {_SIGNATURE}; it has {names}", fix=f"export the model with {_SIGNATURE}"
        )
    signature = signatures.signature_def[_SIGNATURE]
    inputs, outputs = (
        tuple(_of_tensor_info(url, name, side[name]) for name in sorted(side))
        for side in (signature.inputs, signature.outputs)
    )
    return DeclaredModel(inputs=inputs, outputs=outputs)


def _of_tensor_info(url: ModelUrl, name: str, info: Any) -> DeclaredTensor:
    kind = BY_NUMBER.get(info.dtype)
    if kind is None or kind.dtype.hasobject:
        raise _refuse_dtype(url, name, f"the TensorFlow type {info.dtype}")
    shape = None if info.tensor_shape.unknown_rank else tuple(dim.size for dim in info.tensor_shape.dim)
    return DeclaredTensor(name=name, dtype=kind.dtype.name, shape=shape)


def _ask_oip_http(url: ModelUrl) -> DeclaredModel:
    with closing(Link(url.address, _TIMEOUT_S)) as link:
        document, _ = link.ask("GET", f"/v2/models/{quote(url.model)}", b"")
    try:
        return _of_oip(url, *([_oip_row(row) for row in document.get(side) or ()] for side in ("inputs", "outputs")))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        fix = "check that it speaks the Open Inference Protocol"
        raise SessionLost(f"{url.address} answers with no metadata", fix=fix) from error


def _oip_row(row: Mapping[str, Any]) -> tuple[str, str, Sequence[int]]:
    return str(row["name"]), str(row["datatype"]), [int(size) for size in row["shape"]]


def _ask_oip_grpc(url: ModelUrl) -> DeclaredModel:
    served = ServedName.parse(url.model)
    request = messages().ModelMetadataRequest(name=served.name, version=served.version)
    with closing(GrpcLink(url.address, _TIMEOUT_S)) as link:
        reply, _ = link.ask(f"/{SERVICE}/ModelMetadata", request, messages().ModelMetadataResponse)
    return _of_oip(
        url, *([(row.name, row.datatype, row.shape) for row in side] for side in (reply.inputs, reply.outputs))
    )


def _of_oip(url: ModelUrl, *sides: Iterable[tuple[str, str, Sequence[int]]]) -> DeclaredModel:
    inputs, outputs = (tuple(_of_oip_row(url, *row) for row in side) for side in sides)
    return DeclaredModel(inputs=inputs, outputs=outputs)


def _of_oip_row(url: ModelUrl, name: str, datatype: str, shape: Sequence[int]) -> DeclaredTensor:
    kind = BY_NAME.get(datatype)
    if kind is None or kind.dtype.hasobject:
        raise _refuse_dtype(url, name, datatype or "no datatype")
    return DeclaredTensor(name=name, dtype=kind.dtype.name, shape=tuple(shape))


def _refuse_dtype(url: ModelUrl, name: str, dtype: str) -> BadRequest:
    return BadRequest(
        f"{url.text} has {name} as {dtype}, which no format here carries",
        fix=f"serve a model of {', '.join(name for name in BY_NAME if name != 'BYTES')}",
    )


_ASK = {
    "tfserving-grpc": _ask_tfserving_grpc,
    "tfserving-rest": _ask_tfserving_rest,
    "oip-grpc": _ask_oip_grpc,
    "oip-http": _ask_oip_http,
}
