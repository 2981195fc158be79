"""Requests as clients that nobody here wrote send them, recorded: tritonclient 2.73.0 and kserve 0.21.0.

Each asks the model `m` for b = float32[[1, 2]] and a = int64[10].
"""

from __future__ import annotations

TRITON_GRPC = (
    b'\n\x01m\x12\x011\x1a\x017"\r\n\x05trace\x12\x04\x1a\x02on*\r\n\x01b\x12\x04FP32\x1a\x02\x01\x02*\r\n\x01a\x12\x05'
    b"INT64\x1a\x01\x012\x05\n\x03sum:\x08\x00\x00\x80?\x00\x00\x00@:\x08\n\x00\x00\x00\x00\x00\x00\x00"
)
KSERVE_GRPC_TYPED = (
    b"\n\x01m\x1a\x017*\x19\n\x01b\x12\x04FP32\x1a\x02\x01\x02*\n2\x08\x00\x00\x80?\x00\x00\x00@*\x12\n\x01a\x12\x05"
    b"INT64\x1a\x01\x01*\x03\x1a\x01\n"
)
KSERVE_GRPC_RAW = (
    b'\n\x01m\x1a\x017*%\n\x01b\x12\x04FP32\x1a\x02\x01\x02"\x16\n\x10binary_data_size\x12\x02\x10\x08*%\n\x01a\x12\x05'
    b'INT64\x1a\x01\x01"\x16\n\x10binary_data_size\x12\x02\x10\x08:\x08\x00\x00\x80?\x00\x00\x00@:\x08\n\x00\x00\x00'
    b"\x00\x00\x00\x00"
)
GRPC = {"tritonclient": TRITON_GRPC, "kserve typed": KSERVE_GRPC_TYPED, "kserve raw": KSERVE_GRPC_RAW}

_VALUES = b"\x00\x00\x80?\x00\x00\x00@"
_BOTH = b"\x00\x00\x80?\x00\x00\x00@\n\x00\x00\x00\x00\x00\x00\x00"
# The body, and the header Inference-Header-Content-Length.
HTTP: dict[str, tuple[bytes, str | None]] = {
    "tritonclient mixed": (
        b'{"id":"7","inputs":[{"name":"b","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}},'
        b'{"name":"a","shape":[1],"datatype":"INT64","data":[10]}],"outputs":[{"name":"sum","parameters":'
        b'{"binary_data":true}},{"name":"kept","parameters":{"binary_data":false}}]}' + _VALUES,
        "270",
    ),
    "tritonclient binary": (
        b'{"inputs":[{"name":"b","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}},{"name":"a",'
        b'"shape":[1],"datatype":"INT64","parameters":{"binary_data_size":8}}],"parameters":'
        b'{"binary_data_output":true}}' + _BOTH,
        "214",
    ),
    "tritonclient json": (
        b'{"inputs":[{"name":"b","shape":[1,2],"datatype":"FP32","data":[1.0,2.0]},{"name":"a","shape":[1],"datatype":'
        b'"INT64","data":[10]}],"outputs":[{"name":"sum","parameters":{"binary_data":false}}]}',
        None,
    ),
    "kserve binary": (
        b'{"id":"7","model_name":"m","inputs":[{"name":"b","shape":[1,2],"datatype":"FP32","parameters":'
        b'{"binary_data_size":8}},{"name":"a","shape":[1],"datatype":"INT64","parameters":{"binary_data_size":8}}]}'
        + _BOTH,
        "199",
    ),
}
