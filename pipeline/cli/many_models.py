"""A models file on the command line: `convert`, `validate` and `run` with it, the table, and the exit status."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ...models.errors import BadRequest
from ..show.ci.ci_files import CiFiles, ci_files
from . import option_values
from .output.error_output import INTERRUPTED
from .output.render import finish, print_json, print_lines, table

if TYPE_CHECKING:
    from ..commands.many_models import FinishedList
    from ..plan.models_file import ListedModel
    from ..result.list_records import ListCommand

_PAGE = "docs/many-models.md"
Resume = Annotated[
    bool, typer.Option("--resume", help="Of a models file: go on with what an earlier command did not finish.")
]
FailFast = Annotated[bool, typer.Option("--fail-fast", help="Of a models file: stop at the first model that fails.")]


def _absolute_python(text: str) -> str:
    """Return a path that holds wherever the models file lies; `self` and the name of a program stay."""
    return str(Path.cwd() / text) if "/" in text or Path(text).exists() else text


# Options that a models file has under another name, and how their words become its values.
_PARSED: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "to": ("to", lambda words: tuple(map(str, option_values.parse_targets(words)))),
    "runtime": ("runtimes", option_values.parse_runtimes),
    "batch": ("batches", option_values.parse_batches),
    "no_bench": ("bench", lambda is_set: False if is_set else None),
    "data": ("data", lambda text: str(Path.cwd() / text)),
    "python": ("python", _absolute_python),
}
_SAME = (
    "model_version", "model_seconds",
    "search_seconds", "trust", "flex", "keep_float", "device", "metric", "allowed_loss", "non_finite",
)  # fmt: skip
_OF_LIST = (
    "out", "store", "jobs", "executor", "sign_key", "resume", "fail_fast", "converted", "json", "quiet", "explain",
    "junit", "sarif",
)  # fmt: skip


def do_models_file(command: ListCommand, arguments: Sequence[str], context: typer.Context) -> bool:
    """Do the command for each model of a models file, if the arguments name one; return whether they did.
    Prints the table, and ends with the exit status of the list."""
    params = {name: value for name, value in context.params.items() if value is not None}
    junit, sarif = _path(params, "junit"), _path(params, "sarif")
    with ci_files(str(command), junit, sarif) as files:
        path = _models_file_of(command, arguments, params)
        if path is None:
            return False
        overrides = _overrides_of(arguments, params)
        if params.get("explain"):
            _explain(path, overrides, json=params["json"])
            return True
        if "out" not in params:
            raise BadRequest("nothing says where to put what is made", fix="name a folder, as in --out converted")
        done, models = _do_list(command, path, overrides, params)
    return _finish(done, models, path, files, json=params["json"])


def _finish(done: FinishedList, models: Sequence[ListedModel], path: Path, files: CiFiles, *, json: bool) -> NoReturn:
    """Write the files for a CI, print the table, and end with the exit status of the list."""
    status = done.result.exit_code if done.interrupt is None else getattr(done.interrupt, "status", INTERRUPTED)
    if files.wanted:
        from ..show.ci.list_rows import rows_of_list

        files.write(rows_of_list(done.result, models, path), status)
    finish(_document(done), list(_lines(done)), status, json=json)


def _models_file_of(command: ListCommand, arguments: Sequence[str], params: Mapping[str, Any]) -> Path | None:
    """Return the models file that the arguments name, or None where they name models, or a pipeline file.
    Raises BadRequest for a models file among others, and for options of a models file without one."""
    from ..plan.models_file import is_models_file
    from ..result.list_records import ListCommand

    files = [Path(text) for text in arguments if text.endswith(".toml")]
    if files and len(arguments) > 1:
        raise BadRequest(f"{files[0]} is a list of models of its own", fix="name it alone")
    if files and (command is not ListCommand.RUN or (files[0].is_file() and is_models_file(files[0]))):
        return files[0]
    if named := [name for name in ("resume", "fail_fast", "converted") if params.get(name)]:
        raise BadRequest(f"{_option(named[0])} is for a models file", fix=f"name one ({_PAGE})")
    return None


def _overrides_of(arguments: Sequence[str], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the command line that hold for every model. Raises BadRequest for one of a single model."""
    overrides: dict[str, Any] = {}
    for name, value in params.items():
        if name in _OF_LIST or value in (False, [], ()) or value in (arguments[0], list(arguments)):
            continue
        if name in _SAME:
            overrides[name] = value
        elif name in _PARSED:
            key, parse = _PARSED[name]
            overrides[key] = parse(value)
        else:
            raise BadRequest(
                f"{_option(name)} is for one model",
                fix="leave it out"
                if name == "all_"
                else f"write it into the models file, or its pipeline file ({_PAGE})",
            )
    return overrides


def _path(params: Mapping[str, Any], name: str) -> Path | None:
    return Path(params[name]) if name in params else None


def _option(name: str) -> str:
    return f"--{name.strip('_').replace('_', '-')}"


def _do_list(
    command: ListCommand, path: Path, overrides: Mapping[str, Any], params: Mapping[str, Any]
) -> tuple[FinishedList, Sequence[ListedModel]]:
    from ..commands.many_models import do_list
    from ..commands.model_work import ListOptions
    from ..context import LocalSettings
    from ..plan.models_file import read_models_file
    from ..progress import Progress

    models = read_models_file(path, overrides)
    choices = ListOptions(Path(params["out"]), params["resume"], params["fail_fast"], _path(params, "converted"))
    local = LocalSettings.with_defaults(
        _path(params, "store"),
        None,
        params.get("jobs"),
        executor=params.get("executor"),
        sign_key=params.get("sign_key"),
    )
    return do_list(command, models, choices, local, Progress(quiet=params["quiet"])), models


def _explain(path: Path, overrides: Mapping[str, Any], *, json: bool) -> None:
    """Print the rows of a models file, and do nothing."""
    from ..commands.many_models import explained_rows
    from ..plan.models_file import read_models_file

    rows = explained_rows(read_models_file(path, overrides))
    if json:
        print_json({"models": rows})
        return
    cells = [(row["name"], row["source"], f"on {row['device']}", ", ".join(row["targets"]) or "every") for row in rows]
    print_lines([*table(cells), "", f"{len(rows)} rows. Nothing was run."])


def _document(done: FinishedList) -> Any:
    from json import loads

    from ..result.list_records import list_json

    return loads(list_json(done.result))


def _lines(done: FinishedList) -> Iterator[str]:
    from ..show.models_text import cause_lines, list_headline, target_table
    from ..show.tables.printers import as_text

    yield from as_text(target_table(done.result).without("source", "note"))
    if done.result.causes:
        yield from ("", *cause_lines(done.result))
    yield ""
    if done.result.left:
        yield f"models left: {len(done.result.left)}; the same command with --resume goes on with them"
    verdict = str(done.result.verdict).upper()
    yield f"{verdict}  {list_headline(done.result)}, in {done.folder} ({done.folder / 'index.html'})"
