"""Dtypes without arithmetic in TensorFlow (below 8 bits, and 8-bit floats), and the wider dtypes that carry them.

Such a value keeps its own dtype's name, and its tensor lies in a wider dtype that holds the same numbers.
"""

from __future__ import annotations

CARRIERS = {
    "int2": "int8",
    "int4": "int8",
    "uint2": "uint8",
    "uint4": "uint8",
    "float4_e2m1fn": "float32",
    "float8_e4m3fn": "float32",
    "float8_e4m3fnuz": "float32",
    "float8_e5m2": "float32",
    "float8_e5m2fnuz": "float32",
    "float8_e8m0fnu": "float32",
}
