"""Round trips through the formats: every recipe of the zoo, from leg to leg, and back to where it came from.

    python benchmarks/round_trips.py [--recipe NAME ...] [--trip NAME ...] [--out FILE.json] [--store FOLDER]

Each leg is a `transload convert` of the bare file that the leg before has left, without its record. The last copy is
held against the **first** model, on the recipe's test set and at the batches 1, 3 and 5; names, order, dtypes and axes
against what the recipe says. `benchmarks/routes --page` puts the table into docs/evidence/routes.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import transload
from transload.models.array_file import write_arrays
from transload.models.errors import TransloadError
from transload.models.formats import parse_target
from transload.models.loading.code_refs import RECIPES, zoo_recipe
from transload.models.signature import Signature
from transload.pipeline.result.environment import describe_environment
from transload.pipeline.result.schema import SignatureRow

ROOT = Path(__file__).resolve().parents[1]
BATCHES = (1, 3, 5)
KERAS_NETS = ROOT / "benchmarks" / "round_trips_keras.py"
# What torch.export.save wrote, as the arrays that another framework's process can read.
_WEIGHTS = """
import sys
import numpy as np
import torch
program = torch.export.load(sys.argv[1])
np.savez(sys.argv[2], **{name: value.detach().numpy() for name, value in program.state_dict.items()})
"""


@dataclass(frozen=True)
class Trip:
    """Where a round trip starts, and what each leg makes."""

    start: str
    legs: tuple[str, ...]


TRIPS = {
    "PyTorch > ONNX > SavedModel > ONNX > PyTorch": Trip("pytorch", ("onnx", "saved-model", "onnx", "pt2")),
    "Keras > ONNX > TFLite": Trip("keras", ("onnx", "tflite")),
    "TFLite > ONNX > PyTorch": Trip("tflite", ("onnx", "pt2")),
}


@dataclass
class Travelled:
    """What became of one recipe on one trip. `sqnr_db`: by what was asked; null where it agrees to the last bit."""

    status: str = "arrived"
    reason: str = ""
    legs: list[str] = field(default_factory=list)
    sqnr_db: dict[str, float | None] = field(default_factory=dict)


class Traveller:
    """One recipe, with a folder for what is made of it."""

    def __init__(self, recipe: str, folder: Path, store: Path) -> None:
        self.recipe = zoo_recipe(recipe)
        self._name, self._folder, self._store = recipe, folder, store
        folder.mkdir(parents=True)
        self.data = folder / "test.npz"
        write_arrays(self.data, self.recipe.data().test.inputs)
        self._starts: dict[str, str] = {"pytorch": f"zoo:{recipe}"}

    def travel(self, trip: Trip) -> Travelled:
        """Leg after leg; then the last copy against the first model."""
        done = Travelled()
        try:
            first = model = self._start(trip.start)
            made = Path()
            for at, leg in enumerate(trip.legs):
                made, route, signature = self._convert(model, leg, f"{trip.start}.{at}.{leg}")
                done.legs.append(" + ".join(route))
                _check_names(signature, self.recipe.signature)
                model = str(made / (parse_target(leg).format).spec.payload)
            done.sqnr_db = self._agreement(made, first)
        except TransloadError as error:
            done.status, done.reason = "lost", error.what
        except ValueError as error:
            done.status, done.reason = "lost", str(error)
        return done

    def keras_agreement(self) -> dict[str, float | None]:
        """How well the writing in Keras answers as the recipe's own net, whose weights it has."""
        return self._agreement(Path(self._start("keras")), self._start("pytorch"))

    def _start(self, kind: str) -> str:
        """The model that a trip starts from, made once."""
        if kind not in self._starts:
            self._starts[kind] = self._keras() if kind == "keras" else self._tflite()
        return self._starts[kind]

    def _tflite(self) -> str:
        made, _, _ = self._convert(self._start("pytorch"), "tflite", "start.tflite")
        return str(made / (parse_target("tflite").format).spec.payload)

    def _keras(self) -> str:
        """The recipe's net as one writes it in Keras, with the recipe's trained weights."""
        made, _, _ = self._convert(self._start("pytorch"), "pt2", "start.pt2")
        weights, file = self._folder / "weights.npz", self._folder / f"{self._name}.keras"
        program = str(made / (parse_target("pt2").format).spec.payload)
        subprocess.run([sys.executable, "-c", _WEIGHTS, program, str(weights)], check=True)
        subprocess.run([sys.executable, str(KERAS_NETS), self._name, str(weights), str(file)], check=True)
        return str(file)

    def _convert(self, model: str, target: str, name: str) -> tuple[Path, tuple[str, ...], SignatureRow]:
        """The folder of the artifact, its route and its signature.

        Raises ValueError with the reasons where no route led there.
        """
        data = None if model.startswith("zoo:") else self.data
        out = self._folder / name
        done = transload.convert(model, [target], out=out, data=data, store=self._store, jobs=1)
        (row,) = done.artifacts
        if row.path is None or row.signature is None:
            raise ValueError(f"{target}: {'; '.join(f'{each.route[-1]}: {each.reason}' for each in row.tried)}")
        return out / Path(row.path).parts[0], row.route, row.signature

    def _agreement(self, made: Path, first: str) -> dict[str, float | None]:
        data = None if first.startswith("zoo:") else self.data
        done = transload.validate(
            made, against=first, data=data, batches=BATCHES, runs=self._folder / "runs", store=self._store, jobs=1
        )
        for row in done.drift:
            if row.verdict != "pass":
                raise ValueError(f"{row.runtime} at batch {row.batch}: {row.verdict}, {row.sqnr_db} dB")
        return {f"{row.runtime}, {row.samples} samples, batch {row.batch}": row.sqnr_db for row in done.drift}


def _check_names(got: SignatureRow, want: Signature) -> None:
    """Raises ValueError where names, their order, dtypes or axes are not the recipe's; a dynamic axis may be called
    otherwise, as TFLite has no names for them."""
    for side in ("inputs", "outputs"):
        have, asked = (
            [(each.name, each.dtype, [axis if isinstance(axis, int) else "*" for axis in each.shape]) for each in specs]
            for specs in (getattr(got, side), getattr(want, side))
        )
        if have != asked:
            raise ValueError(f"the {side} are {have}, the recipe's {asked}")


def least(sqnr_db: Mapping[str, float | None]) -> float | None:
    """The worst agreement; None where all is the same to the last bit."""
    return min((db for db in sqnr_db.values() if db is not None), default=None)


def main() -> int:
    """Travel, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipe", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--trip", nargs="+", choices=list(TRIPS), default=list(TRIPS))
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "round_trips.json")
    parser.add_argument("--store", type=Path, help="a store to go on with; else an empty one")
    asked = parser.parse_args()
    document = json.loads(asked.out.read_text()) if asked.out.exists() else {"keras_sqnr_db": {}, "trips": {}}
    for recipe in asked.recipe:
        with tempfile.TemporaryDirectory() as folder:
            traveller = Traveller(recipe, Path(folder, recipe), asked.store or Path(folder, "store"))
            _travel_all(traveller, recipe, asked.trip, document)
        document = {"environment": vars(describe_environment()), **{k: document[k] for k in ("keras_sqnr_db", "trips")}}
        asked.out.write_text(json.dumps(document, indent=1, default=str) + "\n")
    return 0


def _travel_all(traveller: Traveller, recipe: str, trips: Sequence[str], document: dict[str, Any]) -> None:
    for name in trips:
        done = traveller.travel(TRIPS[name])
        document["trips"].setdefault(name, {})[recipe] = vars(done)
        worst = least(done.sqnr_db)
        told = ("to the last bit" if worst is None else f"{worst:.1f} dB") if done.status == "arrived" else done.reason
        print(f"{recipe:18} {name:46} {done.status}: {told}", flush=True)
        if TRIPS[name].start == "keras":
            document["keras_sqnr_db"][recipe] = least(traveller.keras_agreement())


if __name__ == "__main__":
    sys.exit(main())
