"""What XNNPACK takes of a TFLite file: a script, since the libraries of a model live in a process of their own.

    python benchmarks/zoo/delegated.py FILE '{"image": [1, 3, 96, 96]}'

Prints JSON: operators; float, how many of them compute in float, by name; left, what XNNPACK did not take, by name.
Of the main graph, at the shapes that are given, quantising and dequantising aside in `float`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_DELEGATE = "DELEGATE"
_PLAIN = ("QUANTIZE", "DEQUANTIZE", "CAST")


def left_by_delegates(operators: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of the operators of a graph, as LiteRT lists them after it was planned, those that no delegate computes.

    A delegate stands behind the operators that it took, with their inputs and outputs: what lies between is its own.
    """
    plain = [each for each in operators if each["op_name"] != _DELEGATE]
    makers = {int(at): number for number, each in enumerate(plain) for at in each["outputs"]}
    taken: set[int] = set()
    for delegate in (each for each in operators if each["op_name"] == _DELEGATE):
        given = {int(at) for at in delegate["inputs"]}
        todo = [int(at) for at in delegate["outputs"]]
        while todo:
            at = todo.pop()
            if at in makers and at not in given and makers[at] not in taken:
                taken.add(makers[at])
                todo += [int(each) for each in plain[makers[at]]["inputs"]]
    return [each for number, each in enumerate(plain) if number not in taken]


def facts_of(path: Path, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Open a file under XNNPACK at these shapes of its inputs, and count."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path), num_threads=1)
    (signature,) = interpreter.get_signature_list()
    for name, detail in interpreter.get_signature_runner(signature).get_input_details().items():
        interpreter.resize_tensor_input(detail["index"], list(shapes[name]))
    interpreter.allocate_tensors()
    operators = interpreter._get_ops_details()
    plain = [each for each in operators if each["op_name"] != _DELEGATE]
    dtypes = {detail["index"]: detail["dtype"] for detail in interpreter.get_tensor_details()}
    floats = [each for each in plain if any(dtypes.get(int(at)) is np.float32 for at in each["outputs"])]
    return {
        "operators": len(plain),
        "float": dict(Counter(each["op_name"] for each in floats if each["op_name"] not in _PLAIN)),
        "left": dict(Counter(each["op_name"] for each in left_by_delegates(operators))),
    }


if __name__ == "__main__":
    print(json.dumps(facts_of(Path(sys.argv[1]), json.loads(sys.argv[2]))))
