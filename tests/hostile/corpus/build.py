"""Writes the corpus: `python -m tests.hostile.corpus.build plain|tensorflow|torch FOLDER`, a framework in each process.

FOLDER/NUMBER-FRAMEWORK/ is the folder of a case, with `case.json` beside `here` and `outside`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from .case import Case, Place

FRAMEWORKS = ("plain", "tensorflow", "torch")


def cases(framework: str) -> Iterator[Case]:
    """Yield the cases whose files this framework, or none, writes."""
    if framework == "tensorflow":
        from . import keras_files, saved_models, tflite_files

        for module in (saved_models, tflite_files, keras_files):
            yield from module.cases()
        return
    if framework == "torch":
        from . import archive_files

        yield from archive_files.cases()
        return
    from . import checkpoint_files, data_files, folder_files, onnx_files, record_files

    for module in (onnx_files, data_files, checkpoint_files, record_files, folder_files):
        yield from module.cases()


def write_corpus(framework: str, folder: Path, only: str = "") -> int:
    """Write the cases whose names the expression `only` finds, and return their number."""
    count = 0
    for case in cases(framework):
        if re.search(only, case.name):
            place = Place(folder / f"{count:03}-{framework}")
            place.make()
            case.build(place)
            record = {"name": case.name, "aim": case.aim, "words": case.words, "outcome": case.outcome}
            record["beside"] = sorted(path.name for path in place.outside.iterdir())
            record["here"] = sorted(path.name for path in place.here.iterdir())
            (place.folder / "case.json").write_text(json.dumps(record, indent=1))
            count += 1
    return count


if __name__ == "__main__":
    print(write_corpus(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:4]), "cases")
