"""The command `compare`: a run against an earlier one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...models.errors import Exit
from ...models.whole_files import write_whole
from ..compare.change_records import RunComparison
from ..compare.compare_limits import CompareLimits
from ..compare.run_comparison import compare_runs
from ..compare.run_files import read_run
from ..report.compare_text import render_compare_markdown
from ..result.schema import Verdict
from .workspace import check_writable, document_of, report_disk_full, write_document

_METHOD = "separate runs"  # how latencies were compared: each one's ratio to its own reference


@dataclass(frozen=True)
class CompareResult:
    """A comparison of two runs, and the folder that it was written to, if any."""

    comparison: RunComparison
    folder: Path | None = None

    @property
    def decided(self) -> tuple[Verdict, Exit]:
        """Verdict and exit status."""
        return self.comparison.decided

    @property
    def document(self) -> dict[str, Any]:
        """The content of compare.json."""
        rows = self.comparison
        head: dict[str, Any] = {"before": rows.before, "after": rows.after, "method": _METHOD}
        head |= {name: list(getattr(rows, name)) for name in ("differences", "new", "gone")}
        return head | document_of(self.decided, figures=rows.figures)


def compare(
    before: Path, after: Path, *, limits: CompareLimits | None = None, out: Path | None = None
) -> CompareResult:
    """Compare the run in `after` with that in `before`; leaves compare.json and compare.md in `out`, where named.
    Raises BadRequest where a folder holds no finished run."""
    comparison = compare_runs(read_run(before), read_run(after), limits)
    if out:
        check_writable(out)
        with report_disk_full(out):
            write_document(out / "compare.json", CompareResult(comparison).document)
            write_whole(out / "compare.md", render_compare_markdown(comparison))
    return CompareResult(comparison, out)
