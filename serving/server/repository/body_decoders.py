"""The inputs of a request from its body: what is done with a long one in the process of the model (session_channel.py).

Reading numbers out of JSON holds Python's lock: 1 s for 14 MB, for which nobody else in the same process is answered.
So a decoder knows the signature and the bytes, and nothing of a server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ....models.signature import Array, Signature, TensorSpec
from ...wire.oip_json import read_request
from ...wire.tfserving_json import is_base64, loads, to_array
from ..serving_error import invalid

SIGNATURE = "serving_default"

# (signature, body, options of its own) to the inputs, and what else the request says, as JSON. Raises ServingError and
# TransloadError.
Decoder: TypeAlias = Callable[..., tuple[Mapping[str, Array], Any]]


def named_signature(document: Mapping[str, Any]) -> str:
    """Return the signature that a request in TF Serving's JSON names; empty: none. Raises ServingError."""
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid("JSON Value: the document not formatted correctly. 'signature_name' key must be a string value.")
    return name


def _read_rows(signature: Signature, body: bytes, signature_name: str) -> tuple[dict[str, Array], bool]:
    """Return the inputs of TF Serving's JSON, and whether they came in rows. Raises ServingError, BadRequest."""
    document = loads(body)
    if not isinstance(document, dict):
        raise invalid("JSON Value: the document Is not object")
    wanted = named_signature(document)
    if (wanted or SIGNATURE) != signature_name:
        raise invalid(f'Serving signature name: "{wanted}" not found in signature def')
    if "instances" in document and "inputs" in document:
        raise invalid(
            "JSON Value: the document Not formatted correctly expecting only one of 'inputs' or 'instances' keys "
            "to exist "
        )
    if "instances" in document:
        return _from_rows(signature.inputs, document["instances"]), True
    if "inputs" in document:
        return _from_columns(signature.inputs, document["inputs"]), False
    raise invalid("Missing 'inputs' or 'instances' key")


def _from_rows(specs: Sequence[TensorSpec], rows: Any) -> dict[str, Array]:
    if not isinstance(rows, list):
        raise invalid("JSON Value: the document Excepting 'instances' to be an list/array")
    if not rows:
        raise invalid("JSON Value: the document No values in 'instances' array")
    if not isinstance(rows[0], dict) or is_base64(rows[0]):
        if len(specs) > 1:
            raise invalid(
                "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
                "tensorinfo_map"
            )
        for at, row in enumerate(rows):
            if isinstance(row, dict) and not is_base64(row):
                raise invalid(f"Expecting value/list but got object at item {at} of input list")
        return {specs[0].name: to_array(rows, specs[0], len(rows))}
    names = {spec.name for spec in specs}
    for at, row in enumerate(rows):
        _check_row(at, row, names)
    return {spec.name: to_array([row[spec.name] for row in rows], spec, len(rows)) for spec in specs}


def _check_row(at: int, row: Any, names: set[str]) -> None:
    if not isinstance(row, dict):
        raise invalid(f"Expecting object but got list at item {at} of input list")
    for name in row:
        if name not in names:
            raise invalid(
                f"Failed to process element: {at} key: {name} of 'instances' list. Error: INVALID_ARGUMENT: "
                f"JSON object: does not have named input: {name}"
            )
    if set(row) != names:
        raise invalid(
            f"Failed to process element: {at} of 'instances' list. JSON object: keys must be equal to: "
            f"{','.join(sorted(names))}"
        )


def _from_columns(specs: Sequence[TensorSpec], columns: Any) -> dict[str, Array]:
    if not isinstance(columns, dict) or is_base64(columns):
        if len(specs) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
                "tensorinfo_map"
            )
        return {specs[0].name: to_array(columns, specs[0])}
    for spec in specs:
        if spec.name not in columns:
            raise invalid(f"Missing named input: {spec.name} in 'inputs' object.")
    return {spec.name: to_array(columns[spec.name], spec) for spec in specs}


def _read_oip(
    signature: Signature,  # noqa: ARG001  (a request names dtypes and shapes itself)
    body: bytes,
    header_length: str | None,
    most_bytes: int,
) -> tuple[Mapping[str, Array], Any]:
    """Return the inputs of an inference request, and the fields of its InferRequest."""
    request = read_request(body, header_length, most_bytes)
    return request.feeds, {"id": request.id, "outputs": request.outputs, "binary": request.binary}


DECODERS: Mapping[str, Decoder] = {"rows": _read_rows, "oip": _read_oip}
