"""Options and facts of the two jobs of `locate`, and the graph that one hands to the other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...models.array_file import read_arrays, write_arrays
from ...models.job import Facts, JsonRecord
from ...models.signature import Array

_GRAPH, _VALUES, _FEEDS, _ANSWERS = "graph.json", "values.npz", "feeds.npz", "answers.npz"


@dataclass(frozen=True, kw_only=True)
class Cure(JsonRecord):
    """The smallest change of the runtime with which the candidate agrees at the diverging call."""

    agrees: bool  # False: with none of the changes that were tried
    change: str = ""  # in words: "without XNNPACK"
    setting: str = ""  # that a user makes: "SessionOptions.graph_optimization_level = ..."; none for a new session
    agreement_db: float | None = None  # None for exact agreement, or where no number can be given
    tried: tuple[str, ...] = ()  # the changes in words


@dataclass(frozen=True, kw_only=True)
class CaptureFacts(Facts):
    """The call at which a candidate departs. `calls`: how many were compared."""

    calls: int
    agreement_db: float | None  # of the worst call: None where no number can be given (other shapes, NaN)
    departs: bool
    call: str = ""  # in words: "batch 1 with time=7"
    limits_db: Mapping[str, float] = field(default_factory=dict)  # that each output must reach there
    error: str = ""  # that the runtime raised in place of an answer
    mismatch: str = ""  # how names, shapes or dtypes of the outputs differ: "at batch 2: the outputs are called ..."
    vanishes: bool = False  # the answers agree once every value of the graph is kept
    columns: str = ""  # of an int8 copy: inputs whose columns one scale cannot serve
    cure: Cure | None = None  # None where nothing departs, or the runtime has no such setting
    operators: int = 0


@dataclass(frozen=True, kw_only=True)
class FollowOptions(JsonRecord):
    """How closely a candidate must follow its reference, and for how long it is searched."""

    least_db: float = 100.0
    limits_db: Mapping[str, float] = field(default_factory=dict)  # of outputs that may agree less than that
    seconds: float = 120.0
    most: int = 3  # places that are looked for
    threads: int = 1
    explain: bool = True  # whether errors are tried that would give the candidate's values


@dataclass(frozen=True, kw_only=True)
class PlaceFacts(JsonRecord):
    """A place at which a candidate computes something else than its reference, beyond what its inputs explain."""

    operator: str  # PyTorch's: "layer_norm"
    module: str
    line: str
    nodes: tuple[str, ...]  # of the candidate, "LayerNormalization (node_layer_norm_2)"
    own_db: float | None = None  # agreement of the piece for the candidate's own inputs
    channels: str = ""  # of its result that depart alone: "channel 3 of 16"
    error_class: str = ""  # "eps"
    explanation: str = ""  # "it computes with eps 0.001 for 1e-05"
    explained_db: float | None = None  # how well that explains the values
    piece: tuple[str, ...] = ()  # the reference's operators in it


@dataclass(frozen=True, kw_only=True)
class FollowFacts(Facts):
    """The places, and how far the candidate was followed."""

    places: tuple[PlaceFacts, ...]
    rest_follows: bool  # whether the outputs agree once the places are allowed for
    values: int  # of the reference
    matched: int  # of those
    outputs_db: Mapping[str, float | None] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class CandidateOperator:
    """An operator of a candidate, with the line and the module that its file names, if it does."""

    type: str
    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    line: str = ""

    def __str__(self) -> str:
        return f"{self.type} ({self.name})" if self.name else self.type


@dataclass(frozen=True)
class CandidateGraph:
    """The operators of a candidate in a topological order. `outputs`: the value of each output, by its name."""

    operators: tuple[CandidateOperator, ...]
    outputs: Mapping[str, str]
    failing: int | None = None  # the first operator that gives no result


@dataclass(frozen=True)
class Capture:
    """A candidate's graph with its values in one call, the feeds of that call, its answers to it, and its constants."""

    graph: CandidateGraph
    values: Mapping[str, Array]
    feeds: Mapping[str, Array]
    answers: Mapping[str, Array]
    constants: Mapping[str, Array] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write it to a folder."""
        document = asdict(self.graph)
        (folder / _GRAPH).write_text(json.dumps(document, indent=1) + "\n")
        arrays = (*self.values.values(), *self.constants.values())
        write_arrays(folder / _VALUES, {str(at): array for at, array in enumerate(arrays)})
        (folder / "names.json").write_text(json.dumps([[*self.values], [*self.constants]]) + "\n")
        write_arrays(folder / _FEEDS, self.feeds)
        write_arrays(folder / _ANSWERS, self.answers)

    @classmethod
    def read(cls, folder: Path) -> Capture:
        """Read what `write` wrote."""
        document: dict[str, Any] = json.loads((folder / _GRAPH).read_text())
        rows = ({**row, "reads": tuple(row["reads"]), "writes": tuple(row["writes"])} for row in document["operators"])
        graph = CandidateGraph(
            tuple(CandidateOperator(**row) for row in rows), document["outputs"], document["failing"]
        )
        values, constants = json.loads((folder / "names.json").read_text())
        arrays = read_arrays(folder / _VALUES)
        by_name = {name: arrays[str(at)] for at, name in enumerate((*values, *constants))}
        named = [{name: by_name[name] for name in names} for names in (values, constants)]
        return cls(graph, named[0], read_arrays(folder / _FEEDS), read_arrays(folder / _ANSWERS), named[1])
