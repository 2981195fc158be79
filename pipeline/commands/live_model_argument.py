"""A MODEL argument of the Python API that is an object: written to a file, and named as that file is.

`convert` keeps the file in its folder. `validate`, `locate` and `bench` keep it in runs/sources/, one folder for each
content, so that the scripts that repeat a step find it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...converters.live_model import LiveModelFile, write_live_model
from ...models.artifact import RECORD, read_artifact
from ...models.signature import TensorSpec
from ...models.store import digest_of, disk_errors
from ..progress.progress import Progress
from ..result.run_folder import slug_of
from .workspace import check_writable, remove_if_unused

_SOURCES = "sources"  # beside the folders of runs; their names begin with a date
_DIGITS = 12  # of a digest, in a folder's name


def name_model(
    model: object, inputs: Sequence[TensorSpec], out: Path, progress: Progress, *, has_data: bool
) -> tuple[str, tuple[TensorSpec, ...]]:
    """Return the MODEL argument of a model to convert, and its inputs. An object is written to `out`/source/.
    Its inputs have the sizes that it takes; values are chosen, too, where no data of the user's will be asked."""
    if isinstance(model, str | Path):
        return str(model), tuple(inputs)
    check_writable(out)
    live = write_live_model(model, inputs, out / "source")
    return str(live.path), _chosen_inputs(live, inputs, progress, has_data=has_data)


def name_reference(
    model: object,
    inputs: Sequence[TensorSpec],
    candidates: Sequence[str],
    runs: Path,
    progress: Progress,
    *,
    has_data: bool = False,
) -> tuple[str, tuple[TensorSpec, ...]]:
    """Return the MODEL argument of the model that candidates are compared with, and its inputs.
    An object is written to `runs`/sources/, with the inputs of the candidates where none are named."""
    if isinstance(model, str | Path):
        return str(model), tuple(inputs)
    named = tuple(inputs) or _recorded_inputs(candidates)
    sources = runs / _SOURCES
    with disk_errors(runs, "runs"), remove_if_unused(sources):
        sources.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=sources) as scratch:
            live = write_live_model(model, named, Path(scratch) / "source")
            place = sources / f"{slug_of(type(model).__name__)}-{digest_of(live.path)[:_DIGITS]}"
            if not place.exists():
                live.path.parent.rename(place)
    return str(place / live.path.name), _chosen_inputs(live, named, progress, has_data=has_data)


def _chosen_inputs(
    live: LiveModelFile, inputs: Sequence[TensorSpec], progress: Progress, *, has_data: bool
) -> tuple[TensorSpec, ...]:
    """Return the inputs of a file that was written, with the values that the model takes unless the user has data."""
    if not has_data:
        for note in live.notes:
            progress.note(note)
        return live.inputs
    values = {spec.name: spec.values for spec in inputs}
    return tuple(replace(spec, values=values[spec.name]) for spec in live.inputs)


def _recorded_inputs(candidates: Sequence[str]) -> tuple[TensorSpec, ...]:
    """Return the inputs that an artifact's record names, of several the most dynamic ones; none without a record."""
    folders = [Path(text) for text in candidates if (Path(text) / RECORD).is_file()]
    recorded = [read_artifact(folder).signature.inputs for folder in folders]
    return max(recorded, key=lambda specs: sum(len(spec.dynamic_axes) for spec in specs), default=())
