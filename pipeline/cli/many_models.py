"""A models file on the command line: `convert`, `validate` and `run` with it, the table, and the exit status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ...models.errors import BadRequest
from .error_output import INTERRUPTED
from .render import finish, print_lines, table

if TYPE_CHECKING:
    from ..commands.many_models import FinishedList, ListOptions
    from ..context import LocalSettings
    from ..model_list.list_records import ListCommand

Resume = Annotated[
    bool, typer.Option("--resume", help="Of a models file: go on with what an earlier command did not finish.")
]
FailFast = Annotated[bool, typer.Option("--fail-fast", help="Of a models file: stop at the first model that fails.")]


def models_file_of(texts: Sequence[str], flags: Mapping[str, bool]) -> Path | None:
    """Return the models file that the arguments name, or None where they name models.
    Raises BadRequest for a models file among others, and for flags of a models file without one."""
    files = [text for text in texts if text.endswith(".toml")]
    if files and len(texts) > 1:
        raise BadRequest(f"{files[0]} is a list of models of its own", fix="name it alone")
    if not files and (named := [flag for flag, is_set in flags.items() if is_set]):
        raise BadRequest(f"{named[0]} is for a models file", fix="name one (docs/many-models.md)")
    return Path(files[0]) if files else None


def refuse_own_options(values: Mapping[str, object]) -> None:
    """Raise BadRequest for an option that is of one model. `values` are by their key in a models file."""
    for key, value in values.items():
        if value:
            option = {"inputs": "input", "settings": "set"}.get(key, key.replace("_", "-"))
            named = "set" if key == "settings" else key
            raise BadRequest(f"--{option} is for one model", fix=f"write {named} = ... into the models file")


def absolute_options(data: str | None, python: str | None) -> dict[str, str | None]:
    """Return these options of a command line with paths that hold wherever the models file lies."""
    is_path = python is not None and ("/" in python or Path(python).exists())
    return {
        "data": str(Path.cwd() / data) if data else None,
        "python": str(Path.cwd() / python) if python and is_path else python,
    }


def do_models_file(
    command: ListCommand, path: Path, overrides: Mapping[str, Any], options: ListOptions, *,
    local: LocalSettings, json: bool, quiet: bool,
) -> NoReturn:  # fmt: skip
    """Do the command for each model of the file, print the table, and end with the exit status of the list."""
    from ..commands.many_models import do_list
    from ..model_list.models_file import read_models_file
    from ..progress import Progress

    models = read_models_file(path, overrides)
    done = do_list(command, models, options, local, Progress(quiet=quiet))
    status = done.result.exit_code if done.interrupt is None else getattr(done.interrupt, "status", INTERRUPTED)
    finish(_document(done), list(_lines(done)), status, json=json)


def explain_models_file(path: Path, overrides: Mapping[str, Any], *, json: bool) -> None:
    """Print the rows of a models file, and do nothing."""
    from ..commands.many_models import explained_rows
    from ..model_list.models_file import read_models_file
    from .render import print_json

    rows = explained_rows(read_models_file(path, overrides))
    if json:
        print_json({"models": rows})
        return
    cells = [(row["name"], row["source"], f"on {row['device']}", ", ".join(row["targets"]) or "every") for row in rows]
    print_lines([*table(cells), "", f"{len(rows)} rows. Nothing was run."])


def _document(done: FinishedList) -> Any:
    from json import loads

    from ..model_list.list_records import list_json

    return loads(list_json(done.result))


def _lines(done: FinishedList) -> Iterator[str]:
    from ..report.models_text import HEADS, cause_lines, list_headline, target_lines

    lines = target_lines(done.result)
    yield from table([HEADS, *((line.model, line.target, line.status, line.drift, line.route) for line in lines)])
    if done.result.causes:
        yield from ("", *cause_lines(done.result))
    yield ""
    if done.result.left:
        yield f"{len(done.result.left)} models are left: the same command with --resume goes on with them"
    verdict = str(done.result.verdict).upper()
    yield f"{verdict}  {list_headline(done.result)}, in {done.folder} ({done.folder / 'index.html'})"
