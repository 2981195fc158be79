"""Where a row comes from: a line of the pipeline file, or of the model's code."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from urllib.parse import quote

from ....models.code_digest import module_file
from ....models.errors import BadRequest
from ....models.sources import code_ref
from ...options.toml_file import line_of_item, line_of_key

_SOURCE_LINE = re.compile(r"([\w.-]+\.py):(\d+)")  # as models/source_lines.py writes one
_PIPELINE_LINE = re.compile(r"(.+\.toml), line (\d+):")  # as pipeline/options/toml_file.py writes one
_TOML_LINE = re.compile(r"(.+\.toml) is not TOML: .*\(at line (\d+), column \d+\)")  # likewise, after tomllib
_MOST_BYTES = 4 << 20
# The keys of the pipeline file that a rule follows from; any other rule has its own name under [gate].
_KEYS = {
    "target": (("convert", "targets"),),
    "drift": (("validate", "sqnr_db"), ("validate", "allowed_loss")),
    "answers": (("validate", "runtimes"),),
    "verified": (("gate", "require_verified"),),
    "metric_loss": (("gate", "metric_loss"), ("validate", "allowed_loss")),
    "no_worse": (("gate", "no_worse"), ("baseline", "run")),
}


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A line of a file."""

    file: Path
    line: int  # from 1

    @property
    def in_repository(self) -> Path | None:
        """The file relative to the root of the working folder's repository, else of its own, else to that folder; None
        outside. Links are followed, unless they lead out: git knows a file by one path only."""
        real, here = Path(os.path.realpath(self.file)), Path.cwd()
        link = Path(os.path.realpath(self.file.parent), self.file.name)
        root = _repository(here) or _repository(real.parent) or here
        return next((path.relative_to(root) for path in (real, link) if path.is_relative_to(root)), None)

    @property
    def path(self) -> str:
        """The path for a reader: from the repository's root, absolute outside."""
        return (self.in_repository or Path(os.path.realpath(self.file))).as_posix()

    @property
    def uri(self) -> str:
        """The path as a URI: a relative reference in the repository, a file URI outside."""
        inside = self.in_repository  # as bytes: a name need not be UTF-8
        return quote(os.fsencode(inside.as_posix())) if inside else Path(os.path.realpath(self.file)).as_uri()


def _repository(folder: Path) -> Path | None:
    return next((root for root in (folder, *folder.parents) if (root / ".git").exists()), None)


class SourcePlaces:
    """The files that rows may come from: the pipeline file and the model's own, where there are such."""

    def __init__(self, pipeline: Path | None = None, model: str | None = None) -> None:
        """`model`: the text of the MODEL argument, for a model without a pipeline file's folder."""
        self._pipeline = pipeline
        self._text = _read(pipeline) if pipeline else ""
        self._code = _code_of(model, pipeline) if model else None

    def of_rule(self, rule: str, artifact: str, message: str) -> SourcePlace | None:
        """Return the line for a row: the one of the model's code that `message` names, else that of the rule's key in
        the pipeline file, else where the model's code begins, else the beginning of the pipeline file."""
        named = self.named_line(message)
        key = self._key_line(rule, artifact)
        return named or key or self._model_line() or (SourcePlace(self._pipeline, 1) if self._pipeline else None)

    def named_line(self, message: str) -> SourcePlace | None:
        """Return the line of the model's code that a message names, if it does."""
        for match in _SOURCE_LINE.finditer(message):
            if file := self._source_file(match[1]):
                return SourcePlace(file, int(match[2]))
        return None

    def _source_file(self, name: str) -> Path | None:
        """Return the file of that name beside the model, else the only one in its package: messages name files without
        their folders."""
        if self._code is None:
            return None
        file = self._code[0]
        if (beside := file.parent / name).is_file():
            return beside
        packages = [*takewhile(lambda folder: (folder / "__init__.py").is_file(), file.parents)]
        named = [*packages[-1].rglob(name)] if packages else []
        return named[0] if len(named) == 1 else None

    def _key_line(self, rule: str, artifact: str) -> SourcePlace | None:
        name = rule.partition(" ")[0]
        for section, key in _KEYS.get(name, (("gate", name),)):
            line = line_of_key(self._text, (section, key))
            if line and self._pipeline:
                return SourcePlace(
                    self._pipeline, line_of_item(self._text, line, artifact) if name == "target" else line
                )
        return None

    def _model_line(self) -> SourcePlace | None:
        """Return the line that defines the model."""
        if self._code is None:
            return None
        file, name = self._code[0], re.escape(self._code[1].partition(".")[0])
        definition = re.compile(rf"\s*((class|def)\s+{name}\b|{name}\s*[:=])")
        lines = enumerate(_read(file).splitlines(), 1)
        return SourcePlace(file, next((at for at, line in lines if definition.match(line)), 1))


def place_of_error(message: str) -> SourcePlace | None:
    """Return the line of a pipeline file, or of a models file, that an error names, if it does."""
    match = _PIPELINE_LINE.match(message) or _TOML_LINE.match(message)
    return SourcePlace(Path(match[1]), int(match[2])) if match else None


def _code_of(model: str, pipeline: Path | None) -> tuple[Path, str] | None:
    """Find the model that FILE.py:NAME or package.module:NAME names: its file, and its name there."""
    root = (pipeline.parent if pipeline else Path()).absolute()
    try:
        ref = code_ref(model, str(root))
        file = ref.file or (None if ref.library or ref.recipe else module_file(ref.place, root))
    except (BadRequest, ValueError):  # a file of a model, a URL
        return None
    return (file, ref.name) if file and file.is_file() else None


def _read(path: Path) -> str:
    """Return the text of a file that was read before; empty where it has gone, or is too large for code."""
    try:
        return path.read_text(errors="replace") if path.stat().st_size <= _MOST_BYTES else ""
    except OSError:
        return ""
