"""Infer a model's inputs from samples whose arrays or columns are named as the parameters of forward. Worker only."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..array_file import map_arrays
from ..data_sources.data_argument import DataKind
from ..data_sources.image_folder import image_specs
from ..data_sources.tables import column_specs
from ..dataset import labels_key
from ..errors import BadRequest
from ..job import Job
from ..job_records import SourceOptions
from ..signature import BATCH, DTYPES, TensorSpec
from .source_from_code import load_weighted, says_inputs
from .user_code import user_code


def infer_inputs(job: Job) -> Mapping[str, Any]:
    """Infer the inputs of a model from the samples in SourceOptions.data: inputs, and notes for the user; nothing where
    the model's code says its inputs, or its forward names none. The first axis is the batch, any other has its size in
    the samples. Raises BadRequest where a parameter without a default has none, or they are of a dtype of no format."""
    options = SourceOptions.from_json(job.options)
    model, ref, _ = load_weighted(options)
    with user_code(f"asking {ref.text} for its inputs", ref):
        known = says_inputs(ref, model)
    rows = inspect.signature(model.forward).parameters.values()
    parameters = {
        row.name: row.default is row.empty for row in rows if row.kind not in (row.VAR_POSITIONAL, row.VAR_KEYWORD)
    }
    if known or not any(parameters.values()) or (data := options.data) is None:
        return {}
    path = Path(data.place)
    if data.kind == DataKind.IMAGES:
        inputs = image_specs(path, [name for name, required in parameters.items() if required], data.images)
    elif data.kind == DataKind.TABLE:
        inputs = column_specs(path, parameters, data.table)
    else:
        inputs = _array_specs(path, parameters)
    notes = [f"inputs taken from {path.name}: {', '.join(map(str, inputs))}"]
    return {"inputs": [spec.to_json() for spec in inputs], "notes": notes}


def _array_specs(path: Path, parameters: Mapping[str, bool]) -> tuple[TensorSpec, ...]:
    arrays, required = map_arrays(path), [name for name in parameters if parameters[name]]
    arrays.pop(labels_key(required), None)
    if lacking := [name for name in required if name not in arrays]:
        raise BadRequest(
            f"forward takes {', '.join(required)}, and {path.name} holds {', '.join(arrays)}, no {', '.join(lacking)}",
            fix="name each input, as in --input image=float32[batch,3,224,224], or call the arrays as forward does",
        )
    names = [name for name in parameters if name in arrays]
    if strange := [name for name in names if str(arrays[name].dtype) not in DTYPES]:
        raise BadRequest(
            f"{path.name}: the array {strange[0]} is {arrays[strange[0]].dtype}, which the formats do not carry",
            fix="save it in a dtype that forward takes, as in array.astype('float32')",
        )
    return tuple(TensorSpec(name, str(arrays[name].dtype), (BATCH, *arrays[name].shape[1:])) for name in names)
