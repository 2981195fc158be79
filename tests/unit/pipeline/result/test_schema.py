"""run.json: what is written is what is read, what its published schema says, and never NaN."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from transload.models.errors import BadRequest
from transload.pipeline.result.schema import json_schema, read_result, schema_text, to_json

from ..show import samples

PUBLISHED = Path(__file__).parents[4] / "docs" / "run.schema.json"
FIELDS = {
    "": "schema id transload_version verdict exit_code started_at seconds environment artifacts drift latency gate "
    "probes exercised errors worst_samples smallest located left_out load tuning bounds doubts timeline recommendation "
    "baseline source inner_ranges",
    "artifacts": "name format precision path sha256 bytes status route tried seconds signature batches_verified flex "
    "weights",
    "drift": "artifact runtime batch samples max_abs rms cosine sqnr_db non_finite tolerance verdict metric log "
    "mismatch derivation lost settings",
    "latency": "artifact runtime server device threads batch rounds samples p50_s p90_s p99_s throughput_per_s "
    "ratio_to_reference ratio_ci95 peak_rss_bytes doubts log processes reference comparison settling_s load_s "
    "first_call_s steady_rss_bytes size_bytes p999_s p50_ci95 p90_ci95 p99_ci95 p999_ci95 "
    "doubt_kinds settings ratio_to_default ratio_to_default_ci95 energy_j comparison_interval",
    "probes": "artifact runtime batch sizes values samples max_abs sqnr_db non_finite tolerance derivation "
    "verdict reason",
    "exercised": "artifact runtime samples calls axes inputs stress stress_not_asked constants "
    "constants_not_reached functions_not_asked",
    "errors": "artifact runtime output elements equal non_finite rms bins",
    "worst_samples": "artifact runtime sample output error candidate reference label picture",
    "inner_ranges": "artifact runtime arithmetic limit samples sqnr_db non_finite beyond note tensors",
    "smallest": "target route operators message script fix operator",
    "located": "artifact runtime message operator module line error_class nodes",
    "left_out": "target reason",
    "gate": "rule limit got verdict artifact runtime unit samples_needed before after",
}


def document() -> dict[str, Any]:
    return json.loads(to_json(samples.result()))


def validate(doc: object) -> None:
    jsonschema.Draft202012Validator(json.loads(PUBLISHED.read_text())).validate(doc)


def test_the_published_schema_is_the_one_that_the_records_have() -> None:
    again = "write it anew: python -m transload.pipeline.result.schema > docs/run.schema.json"
    assert PUBLISHED.read_text() == schema_text(), again
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_a_whole_result_fits_the_published_schema() -> None:
    validate(document())


@pytest.mark.parametrize("part", FIELDS)
def test_the_fields_are_those_of_schema_1(part: str) -> None:
    doc = document()
    assert list(doc[part][0] if part else doc) == FIELDS[part].split()


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(to_json(samples.result()))
    assert read_result(path) == samples.result()
    assert to_json(read_result(path)) == path.read_bytes()


Spoil = Callable[[dict[str, Any]], object]
NONSENSE: dict[str, Spoil] = {
    "another schema": lambda doc: doc.update(schema=2),
    "an unknown verdict": lambda doc: doc.update(verdict="perhaps"),
    "an unknown exit code": lambda doc: doc.update(exit_code=9),
    "a key too many": lambda doc: doc.update(mood="good"),
    "a key too many below": lambda doc: doc["drift"][0].update(mood="good"),
    "a key too few": lambda doc: doc["latency"][0].pop("doubts"),
    "a number in quotes": lambda doc: doc.update(seconds="118"),
    "negative seconds": lambda doc: doc["latency"][0].update(p50_s=-1.0),
    "a batch of none": lambda doc: doc["drift"][0].update(batch=0),
    "a short digest": lambda doc: doc["artifacts"][0].update(sha256="abc"),
    "a day without a time": lambda doc: doc.update(started_at="2026-11-21"),
    "an unknown server": lambda doc: doc["latency"][0].update(server="cloud"),
    "an interval of one": lambda doc: doc["latency"][0].update(ratio_ci95=[1.0]),
    "no name": lambda doc: doc["artifacts"][0].update(name=""),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_refused_by_reader_and_schema_alike(what: str, tmp_path: Path) -> None:
    doc = document()
    NONSENSE[what](doc)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(doc))
    with pytest.raises(BadRequest, match=r"is no run\.json of schema 1: "):
        read_result(path)
    with pytest.raises(jsonschema.ValidationError):
        validate(doc)


def test_a_file_that_is_not_there_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as caught:
        read_result(tmp_path / "run.json")
    assert str(caught.value) == (
        f"{tmp_path / 'run.json'} cannot be read: No such file or directory\n  fix: name a folder under runs/"
    )


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(to_json(samples.result())[:500])
    with pytest.raises(BadRequest, match="the document: Invalid JSON"):
        read_result(path)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_becomes_null_where_null_is_allowed(value: float) -> None:
    run = samples.result()
    spoilt = replace(run, drift=(replace(run.drift[0], cosine=value), *run.drift[1:]))
    text = to_json(spoilt)
    assert b"NaN" not in text
    assert b"Infinity" not in text
    assert json.loads(text)["drift"][0]["cosine"] is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_none_is_refused_where_it_must_be_there(value: float) -> None:
    with pytest.raises(ValueError, match=r"^the result does not fit run\.json: seconds: "):
        to_json(replace(samples.result(), seconds=value))


@pytest.mark.parametrize("digits", [21, 400, 4000])
def test_an_integer_that_nothing_counts_is_refused(digits: int, tmp_path: Path) -> None:
    doc = document()
    doc["latency"][0]["peak_rss_bytes"] = int("9" * digits)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(doc))
    with pytest.raises(BadRequest, match=r"is no run\.json"):
        read_result(path)
