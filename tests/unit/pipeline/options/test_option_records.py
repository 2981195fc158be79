"""An option is one record: the command line, the Python function, the stub and the request say the same of it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import typer

import transload
from transload.models.errors import BadRequest
from transload.models.formats import Target
from transload.pipeline import api
from transload.pipeline.api_stub import stub
from transload.pipeline.cli.app import COMMANDS
from transload.pipeline.cli.convert import OWN
from transload.pipeline.cli.locate import LocateOptions
from transload.pipeline.cli.run import RunOptions
from transload.pipeline.cli.validate import ValidateOptions
from transload.pipeline.options.command_line import line_function
from transload.pipeline.options.keyword_function import takes
from transload.pipeline.options.option import CommandOptions, Key, Side, fields_of, option_of, parts_of
from transload.pipeline.options.request import RunRequest

FUNCTIONS = [getattr(transload, name) for name in transload.__all__ if inspect.isfunction(getattr(transload, name))]


def all_records(kind: type[CommandOptions] = CommandOptions) -> list[type[CommandOptions]]:
    """The records of all commands."""
    for command in COMMANDS:
        command.load()
    return sorted(kind.__subclasses__(), key=lambda record: record.__name__)


def test_the_stub_is_as_the_records_are() -> None:
    assert (Path(api.__file__).with_suffix(".pyi")).read_text() == stub(), (
        "python -m transload.pipeline.api_stub > pipeline/api.pyi"
    )


def test_every_key_is_one_of_the_pipeline_file() -> None:
    paths = [
        (record.__name__, key.path)
        for record in all_records()
        for field in record.model_fields.values()
        for key in parts_of(field, Key)
    ]
    assert len(paths) > 40
    for record, path in paths:
        section: Any = RunRequest
        for part in path.split("."):
            by_name = {field.alias or name: field.annotation for name, field in section.model_fields.items()}
            assert part in by_name, (record, path)
            section = by_name[part]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_function_has_the_fields_that_its_line_has(function: Any) -> None:
    """Beside what belongs to a terminal: each option may be told to the function, too."""
    record = get_type_hints(inspect.unwrap(function), vars(api))["options"]
    own = set(inspect.signature(function).parameters) | {"models", "candidates"}
    both = {name for name, field in fields_of(record, Side.LINE).items() if option_of(field).only is None}
    assert both - own == (set(OWN) if function.__name__ == "convert_all" else set())


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_keyword_that_is_no_option_is_a_type_error(function: Any) -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'wrong'|missing a required argument"):
        function(wrong=1)


def test_a_value_of_another_type_is_refused_in_one_sentence() -> None:
    with pytest.raises(BadRequest, match=r"^threads: .*and it is 'many'"):
        RunOptions.read({"threads": "many"})


def test_texts_and_values_are_the_same() -> None:
    words = RunOptions.read({"to": ["onnx,tflite:int8"], "budget_s": "2m", "batches": ["1,8"]})
    values = RunOptions.read(
        {
            "to": [Target.parse("onnx") if hasattr(Target, "parse") else "onnx", "tflite:int8"],
            "budget_s": 120.0,
            "batches": (1, 8),
        }
    )
    assert words == values
    assert words.sections() == {
        "convert": {"targets": ["onnx", "tflite:int8"]}, "bench": {"budget_s": 120.0, "batches": (1, 8)},
    }  # fmt: skip


def test_what_is_not_told_is_in_no_section() -> None:
    assert ValidateOptions.read({"candidates": ["a"]}).sections() == {}
    assert RunOptions.read({"bench": False, "weights": "w.pt"}).sections() == {
        "bench": {"enabled": False}, "model": {"weights": str(Path("w.pt").absolute())},
    }  # fmt: skip


def test_the_words_of_a_record_tell_it_again() -> None:
    told = {
        "candidates": ["a"], "against": "net.py:Net", "weights": "w.pt", "trust": True,
        "inputs": ["x=float32[batch,3]"],
        "settings": {"depth": 50, "widths": [8, 16], "name": "a b"},
    }  # fmt: skip
    words = LocateOptions.read(told).words("against", "weights", "inputs", "settings", "trust")
    seen: list[LocateOptions] = []
    app = typer.Typer()
    app.command()(line_function(LocateOptions, seen.append))
    typer.main.get_command(app).main(["a", *words], standalone_mode=False)
    assert seen == [LocateOptions.read(told)]


def test_a_function_may_take_one_of_several() -> None:
    @takes(LocateOptions, single=("candidates", "candidate"), without={"seconds"})
    def locate(options: LocateOptions) -> LocateOptions:
        return options

    assert next(iter(inspect.signature(locate).parameters)) == "candidate"
    assert "seconds" not in inspect.signature(locate).parameters
    assert locate("a", trust=True) == LocateOptions.read({"candidates": ["a"], "trust": True, "quiet": True})
