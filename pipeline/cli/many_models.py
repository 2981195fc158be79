"""A models file on the command line: `convert`, `validate` and `run` with it, the table, and the exit status."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ...models.errors import BadRequest
from ..options.option import CommandOptions
from ..options.shared_options import absolute, absolute_python
from ..show.ci.ci_files import CiFiles, ci_files
from .output.error_output import INTERRUPTED
from .output.render import finish, print_json, print_lines, table

if TYPE_CHECKING:
    from ..commands.many_models import FinishedList
    from ..plan.models_file import ListedModel
    from ..result.list_records import ListCommand

_PAGE = "docs/many-models.md"
# What each model of a list has of its own.
_OF_MODEL = ("inputs", "weights", "weights_key", "settings")
_OF_LIST = (
    "models", "candidates", "request", "out", "runs", "store", "jobs", "executor", "sign_key", "resume", "fail_fast",
    "converted", "json_", "quiet", "explain", "junit", "sarif",
)  # fmt: skip


def do_models_file(command: ListCommand, arguments: Sequence[object], options: CommandOptions) -> bool:
    """Do the command for each model of a models file, if the arguments name one; return whether they did.
    Prints the table, and ends with the exit status of the list."""
    changed = options.non_defaults()
    with ci_files(str(command), changed.get("junit"), changed.get("sarif")) as files:
        path = _models_file_of(command, list(map(str, arguments)), options)
        if path is None:
            return False
        overrides = _overrides_of(options)
        if changed.get("explain"):
            _explain(path, overrides, json="json_" in changed)
            return True
        out = getattr(options, "out", None) or getattr(options, "runs", None)
        if out is None:
            raise BadRequest("nothing says where to put what is made", fix="name a folder, as in --out converted")
        done, models = _do_list(command, path, overrides, out, options)
    return _finish(done, models, path, files, json="json_" in changed)


def _finish(done: FinishedList, models: Sequence[ListedModel], path: Path, files: CiFiles, *, json: bool) -> NoReturn:
    """Write the files for a CI, print the table, and end with the exit status of the list."""
    status = done.result.exit_code if done.interrupt is None else getattr(done.interrupt, "status", INTERRUPTED)
    if files.wanted:
        from ..show.ci.list_rows import rows_of_list

        files.write(rows_of_list(done.result, models, path), status)
    finish(_document(done), list(_lines(done)), status, json=json)


def _models_file_of(command: ListCommand, arguments: Sequence[str], options: CommandOptions) -> Path | None:
    """Return the models file that the arguments name, or None where they name models, or a pipeline file.
    Raises BadRequest for a models file among others, and for options of a models file without one."""
    from ..plan.models_file import is_models_file
    from ..result.list_records import ListCommand

    files = [Path(text) for text in arguments if text.endswith(".toml")]
    if files and len(arguments) > 1:
        raise BadRequest(f"{files[0]} is a list of models of its own", fix="name it alone")
    if files and (command is not ListCommand.RUN or (files[0].is_file() and is_models_file(files[0]))):
        return files[0]
    if named := [name for name in ("resume", "fail_fast", "converted") if name in options.non_defaults()]:
        raise BadRequest(f"{options.word_of(named[0])} is for a models file", fix=f"name one ({_PAGE})")
    return None


def _overrides_of(options: CommandOptions) -> dict[str, Any]:
    """Return what the command line says for every model. Raises BadRequest for an option of a single model."""
    from ..plan.models_file import ModelOptions

    changed = {name: value for name, value in options.non_defaults().items() if name not in _OF_LIST}
    for name in changed:
        if name in _OF_MODEL or name not in ModelOptions.model_fields:
            raise BadRequest(
                f"{options.word_of(name)} is for one model",
                fix="leave it out"
                if name == "every_batch"
                else f"write it into the models file, or its pipeline file ({_PAGE})",
            )
    as_texts: dict[str, Callable[[Any], Any]] = {
        "to": lambda targets: tuple(map(str, targets)),
        "data": absolute,
        "python": absolute_python,
    }
    return {name: as_texts[name](value) if name in as_texts else value for name, value in changed.items()}


def _do_list(
    command: ListCommand, path: Path, overrides: Mapping[str, Any], out: Path, options: CommandOptions
) -> tuple[FinishedList, Sequence[ListedModel]]:
    from ..commands.many_models import do_list
    from ..commands.model_work import ListOptions
    from ..plan.context import LocalSettings
    from ..plan.models_file import read_models_file
    from ..progress.progress import Progress
    from .requests import local_settings

    models, changed = read_models_file(path, overrides), options.non_defaults()
    choices = ListOptions(out, "resume" in changed, "fail_fast" in changed, changed.get("converted"))
    local = replace(local_settings(options), runs=LocalSettings().runs)
    return do_list(command, models, choices, local, Progress(quiet="quiet" in changed)), models


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
    from ..show.tables.printers import to_text

    yield from to_text(target_table(done.result).without("source", "note"))
    if done.result.causes:
        yield from ("", *cause_lines(done.result))
    yield ""
    if done.result.left:
        yield f"models left: {len(done.result.left)}; the same command with --resume goes on with them"
    verdict = str(done.result.verdict).upper()
    yield f"{verdict}  {list_headline(done.result)}, in {done.folder} ({done.folder / 'index.html'})"
