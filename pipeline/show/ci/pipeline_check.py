"""Check pipeline files without running anything: `python -m transload.pipeline.show.ci.pipeline_check FILE...`.

What the hook of .pre-commit-hooks.yaml calls. The reader is that of `run`; no framework is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ....models.errors import BadRequest, Exit
from ...options.request import read_request


def check_pipelines(files: Sequence[str]) -> int:
    """Print the first error of each file on stderr; return 0, or 2 where a file is refused or none is named."""
    errors = [error for file in files if (error := _error_of(Path(file)))]
    if not files:
        errors = [BadRequest("no pipeline file is named", fix="name one, as in pipeline.toml")]
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    return int(Exit.USAGE if errors else Exit.PASS)


def _error_of(file: Path) -> BadRequest | None:
    try:
        read_request(file)
    except BadRequest as error:
        return error
    return None


if __name__ == "__main__":
    raise SystemExit(check_pipelines(sys.argv[1:]))
