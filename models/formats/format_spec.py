"""What a format is: one record, with everything that the rest of transload has to know of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

Entry: TypeAlias = str  # "MODULE:FUNCTION", which is imported where it runs


class FileHead(NamedTuple):
    """The beginning of a file, and the names of its parts where it is a zip archive."""

    data: bytes  # the first 16
    names: frozenset[str] = frozenset()
    inner_names: frozenset[str] = frozenset()  # without the folder that all of them lie in


class Snippet(NamedTuple):
    """A program that calls a model, as Python with fields in braces."""

    array: str  # of one input: {shape}, {value}, {dtype}
    text: str  # {inputs}: a dict of such arrays; {file}: the payload's name, {names}: those of the outputs, both quoted
    call: str = ""  # {answers} in the text: an expression of one answer, or of several in a tuple


class SnippetChoice(Protocol):
    """Chooses the program that calls an artifact."""

    def __call__(self, *, flex: bool, named: bool) -> Snippet:
        """Return it. `flex`: the file holds TensorFlow's operators; `named`: it names its inputs and outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatSpec:
    """A format. Its entries run in workers; an empty one names work that cannot be done on this format."""

    name: str  # what `--to` names, as "saved-model"
    title: str  # what people call it
    payload: str  # the file or folder, inside an artifact's folder, that a server or a runtime opens
    runtime: str  # that an artifact is checked in where the user names none
    suffixes: tuple[str, ...] = ()  # of users' files, the usual one first; none: it is a folder
    marks: tuple[str, ...] = ()  # of which a folder of this format holds one
    requires: tuple[str, ...] = ()  # the modules with which a worker reads it
    has_content: Callable[[FileHead], bool]  # whether a file is plainly of this format
    snippet: SnippetChoice
    is_written: bool = True  # whether some step leads to it
    is_program: bool = False  # whether it is a model of PyTorch, whose operators name source lines
    declares_inputs: bool = True  # whether a file says what inputs it takes
    has_data_beside: bool = False  # whether a file may keep weights in further files of its folder
    least_quantised: int = 0  # elements of the smallest weight that int8-dynamic quantises
    reader: Entry  # a models.job.Work that takes in a user's file or folder: FileOptions -> FileFacts
    checker: Entry  # (Artifact, *, trust: bool): raises BadRequest where the payload is broken or cannot be trusted
    describer: Entry  # (Path) -> FileDescription
    recorder: Entry = ""  # (Artifact) -> pipeline.locate's ValueRecorder: its operators and their values
    cutter: Entry = ""  # (Artifact) -> GraphCutter, which cuts it into pieces for minimal repros
    stored_precision: Entry = ""  # (Path) -> StoredPrecision: its weights by dtype
    calibrated_ranges: Entry = ""  # (Path) -> inputs and the ranges that an int8 file was calibrated on
    table_sizes: Entry = ""  # (Path) -> rows of the tables that its integer inputs point into
    function_names: Entry = ""  # (Path) -> names of its further functions, which copies do not hold
    embedder: Entry = ""  # (Path, text): puts a text into the payload
    mlflow: str = ""  # the flavour of its model in MLflow; empty: it is not logged there
    package: str = ""  # name and version of the third party that provides it; empty if it is ours

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, and not a file."""
        return not self.suffixes


ENTRIES = (
    "reader", "checker", "describer", "recorder", "cutter", "stored_precision", "calibrated_ranges", "table_sizes",
    "function_names", "embedder",
)  # fmt: skip
