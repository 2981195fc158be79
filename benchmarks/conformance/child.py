"""The process that answers: reads names of cases, answers each, writes one line of JSON. It may die of a case."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path

os.environ.update({"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"})

import onnx  # after the environment, which TensorFlow reads when it is imported
from backends import BACKENDS
from cases import cases, difference, with_initializers


def _without_places(text: str) -> str:
    """What is published names no folder of this machine."""
    return re.sub(r"(/[\w.+-]+){2,}/", "../", text)


def main() -> None:
    """Answer for one backend and one view until the parent closes the pipe."""
    answer, view = BACKENDS[sys.argv[1]], sys.argv[2]
    replies = os.fdopen(int(sys.argv[3]), "w")
    for line in sys.stdin:
        case = cases()[line.strip()]
        case = with_initializers(case) if view == "B" else case
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            model = Path(folder) / "model.onnx"
            onnx.save(case.model, model)
            try:
                wrong = difference(answer(model, case.feeds, Path(folder)), case.outputs)
                status, why = ("right", "") if wrong is None else ("WRONG", wrong)
            except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a converter raises is its answer
                text = " ".join(str(error).split()) or type(error).__name__
                status, why = "error", f"{type(error).__name__}: {_without_places(text)}"[:400]
            os.chdir("/")
        print(json.dumps([case.name, status, why]), file=replies, flush=True)


if __name__ == "__main__":
    main()
