"""check.py against endpoints that answer right, a little off, and wrong; it is run as whoever deploys runs it."""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.formats import Format
from transload.models.signature import Signature
from transload.serving.bundles.bundle_folder import write_bundle_folder
from transload.serving.bundles.bundle_records import AnswerLimit, BundleSource, Dialect, GoldenCall, golden_document
from transload.serving.bundles.bundle_templates import CHECK, render, standalone

Answer = Callable[[str, Any], tuple[int, Any]]


@pytest.fixture
def bundle(make_source: Callable[..., BundleSource], tmp_path: Path) -> Callable[..., tuple[Path, BundleSource]]:
    def write(
        dialect: Dialect, signature: Signature | None = None, tolerance: AnswerLimit | None = None
    ) -> tuple[Path, BundleSource]:
        source = make_source(Format.ONNX, *([signature] if signature else []))
        golden = replace(source.golden, tolerance=tolerance or source.golden.tolerance)
        signature = source.artifact.signature
        document = golden_document(
            golden, signature, signature, dialect=dialect, url="http://none.invalid", path="/ask"
        )
        files = {
            "golden.json": json.dumps(document),
            "check.py": standalone(CHECK),
            "check.sh": render("bundle/check.sh", {}),
        }
        write_bundle_folder(tmp_path / "bundle", dict(files))
        return tmp_path / "bundle", source

    return write


def check(folder: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run([folder / "check.sh", *words], cwd="/", capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


class Model:
    """Answers the golden calls in a dialect, after `change`."""

    def __init__(
        self, source: BundleSource, dialect: Dialect, change: Callable[[dict[str, Any]], dict[str, Any]] = dict
    ) -> None:
        self._calls = {_key(call): change(dict(call.outputs)) for call in source.golden.calls}
        self._inputs = source.artifact.signature.inputs
        self._dialect = dialect

    def __call__(self, path: str, body: Any) -> tuple[int, Any]:
        outputs = self._calls[self._feeds_key(body)]
        if self._dialect is Dialect.V2:
            rows = [
                {"name": name, "shape": list(value.shape) or [1], "data": value.reshape(-1).tolist()}
                for name, value in outputs.items()
            ]
            return 200, {"outputs": rows}
        listed = {name: value.tolist() for name, value in outputs.items()}
        if self._dialect is Dialect.COLUMNS:
            return 200, {"outputs": listed if len(listed) > 1 else next(iter(listed.values()))}
        count = len(next(iter(listed.values())))
        rows = [{name: value[at] for name, value in listed.items()} for at in range(count)]
        return 200, {"predictions": rows if len(listed) > 1 else [next(iter(row.values())) for row in rows]}

    def _feeds_key(self, body: Any) -> str:
        if self._dialect is Dialect.V2:
            rows = {row["name"]: (row["shape"], row["data"]) for row in body["inputs"]}
            shapes = {spec.name: rows[spec.name][0] if spec.shape else [] for spec in self._inputs}
            assert all(shape for spec, shape in zip(self._inputs, shapes.values(), strict=True) if spec.shape)
            feeds = {name: np.array(data).reshape(shapes[name]) for name, (_, data) in rows.items()}
        elif self._dialect is Dialect.COLUMNS:
            feeds = {name: np.array(value) for name, value in body["inputs"].items()}
        else:
            names = body["instances"][0]
            feeds = {name: np.array([row[name] for row in body["instances"]]) for name in names}
        return _key(GoldenCall({spec.name: feeds[spec.name].astype(spec.dtype) for spec in self._inputs}, {}))


def _key(call: GoldenCall) -> str:
    return str([(name, value.tolist()) for name, value in sorted(call.inputs.items())])


@pytest.mark.parametrize("dialect", Dialect)
def test_right_answers_pass_in_every_dialect(bundle: Any, endpoint: Any, dialect: Dialect) -> None:
    folder, source = bundle(dialect)
    server = endpoint(Model(source, dialect))
    assert check(folder, server.url) == (0, "pass  logits is equal\npass  best is equal\n")
    assert [path for path, _, _ in server.requests] == ["/ask", "/ask"]


@pytest.mark.parametrize("dialect", [Dialect.V2, Dialect.COLUMNS])
def test_single_numbers_are_asked_and_compared(
    bundle: Any, endpoint: Any, signatures: dict[str, Any], dialect: Dialect
) -> None:
    folder, source = bundle(dialect, signatures["scalars"])
    assert check(folder, endpoint(Model(source, dialect)).url)[0] == 0


def off_by(relative: float) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda outputs: {**outputs, "logits": outputs["logits"] * (1 + relative)}


def test_the_tolerance_decides(bundle: Any, endpoint: Any) -> None:
    folder, source = bundle(Dialect.V2)
    near = endpoint(Model(source, Dialect.V2, off_by(5e-4)))
    assert check(folder, near.url) == (
        0, "pass  logits agrees to 66.0 dB, at least 60.0 dB are needed\npass  best is equal\n",
    )  # fmt: skip
    far = endpoint(Model(source, Dialect.V2, off_by(2e-3)))
    assert check(folder, far.url) == (
        1, "FAIL  logits agrees to 54.0 dB, at least 60.0 dB are needed\npass  best is equal\n",
    )  # fmt: skip


class Rows:
    """Answers any rows up to a limit, after the golden calls."""

    def __init__(self, model: Model, limit: int | None, status: int = 400, kept: int | None = None) -> None:
        self._model, self._limit, self._status, self._kept = model, limit, status, kept
        self.asked: list[int] = []

    def __call__(self, path: str, body: Any) -> tuple[int, Any]:
        rows = body["inputs"][0]["shape"][0]
        self.asked.append(rows)
        if rows <= 3:
            return self._model(path, body)
        if self._limit is not None and rows > self._limit:
            return self._status, {"error": f"{rows} rows are too many"}
        answered = self._kept or rows
        logits = {"name": "logits", "shape": [answered, 4], "data": [0.5] * 4 * answered}
        return 200, {"outputs": [logits, {"name": "best", "shape": [answered], "data": [0] * answered}]}


@pytest.mark.parametrize(
    ("limit", "model", "said"),
    [
        (8, {"limit": 8}, "pass  a request of 8 rows is answered, and one of 9 is refused"),
        (8, {"limit": None}, "FAIL  a request of 9 rows is answered, and 8 is the limit"),
        (8, {"limit": 7}, 'FAIL  URL/ask answered 400: {"error": "8 rows are too many"}'),
        (8, {"limit": 8, "status": 500}, 'FAIL  URL/ask answered 500: {"error": "9 rows are too many"}'),
        (None, {"limit": None}, "pass  a request of 1000 rows is answered"),
        (None, {"limit": 64}, 'FAIL  URL/ask answered 400: {"error": "1000 rows are too many"}'),
        (None, {"limit": None, "kept": 1}, "FAIL  a request of 1000 rows is answered by other rows"),
        (5_000_000, {"limit": None}, "      requests of 5000000 rows are not asked: their rows are too large"),
    ],
)
def test_one_row_more_than_the_limit_is_refused(
    bundle: Any, endpoint: Any, limit: int | None, model: dict[str, Any], said: str
) -> None:
    folder, source = bundle(Dialect.V2)
    document = json.loads((folder / "golden.json").read_text())
    (folder / "golden.json").write_text(json.dumps(document | {"rows": {"limit": limit, "most_numbers": 4_000_000}}))
    server = endpoint(Rows(Model(source, Dialect.V2), **model))
    status, text = check(folder, server.url)
    assert text.splitlines()[2] == said.replace("URL", server.url)
    assert status == (1 if said.startswith("FAIL") else 0)


def test_integers_may_differ_by_their_own_share_alone(bundle: Any, endpoint: Any) -> None:
    def change(outputs: dict[str, Any]) -> dict[str, Any]:
        return {**outputs, "best": outputs["best"] + (np.arange(len(outputs["best"])) == 2)}

    folder, source = bundle(Dialect.V2)
    status, text = check(folder, endpoint(Model(source, Dialect.V2, change)).url)
    assert (status, text.splitlines()[1]) == (1, "FAIL  best 1 of 4 integers differ, at most 0% may")
    document = json.loads((folder / "golden.json").read_text())
    document["tolerance"]["most_unequal"] = 0.25
    (folder / "golden.json").write_text(json.dumps(document))
    assert check(folder, endpoint(Model(source, Dialect.V2, change)).url)[0] == 0


def with_logits(value: float) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda outputs: {**outputs, "logits": np.where(np.arange(4) == 1, value, outputs["logits"])}


WRONG: list[tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = [
    (lambda outputs: {**outputs, "logits": outputs["logits"][:, :3]}, "logits has the shape [1, 3], expected [1, 4]"),
    (with_logits(np.nan), "logits: element 1 is nan, expected "),
    (with_logits(np.inf), "logits: element 1 is inf, expected "),
    (lambda outputs: {"logits": outputs["logits"]}, "the answer lacks outputs (KeyError('best')): "),
]


@pytest.mark.parametrize(("change", "said"), WRONG, ids=["shape", "nan", "infinity", "output"])
def test_another_answer_fails(bundle: Any, endpoint: Any, change: Any, said: str) -> None:
    folder, source = bundle(Dialect.V2)
    status, text = check(folder, endpoint(Model(source, Dialect.V2, change)).url)
    assert status == 1
    assert text.startswith(f"FAIL  {said}")


def test_an_endpoint_that_refuses_or_is_not_there_fails(bundle: Any, endpoint: Any) -> None:
    folder, _ = bundle(Dialect.V2)
    server = endpoint(lambda path, body: (404, {"error": "no such model"}))
    assert check(folder, server.url) == (1, f'FAIL  {server.url}/ask answered 404: {{"error": "no such model"}}\n')
    server = endpoint(lambda path, body: (200, []))
    assert check(folder, server.url) == (1, f"FAIL  {server.url}/ask holds no JSON object\n")
    status, text = check(folder)  # the bundle's own address
    assert status == 1
    assert text.startswith("FAIL  http://none.invalid/ask gave no answer: ")


def test_a_whole_url_and_headers_are_taken_as_they_are(bundle: Any, endpoint: Any) -> None:
    folder, source = bundle(Dialect.V2)
    server = endpoint(Model(source, Dialect.V2))
    words = (f"{server.url}/other/path?q=1", "--header", "Authorization: Bearer abc", "--header", "Host: m.example")
    assert check(folder, *words)[0] == 0
    path, _, headers = server.requests[0]
    assert (path, headers["Authorization"], headers["Host"]) == ("/other/path?q=1", "Bearer abc", "m.example")


def test_requests_and_answers_travel_as_files(bundle: Any, tmp_path: Path) -> None:
    folder, source = bundle(Dialect.V2)
    files = tmp_path / "files"
    assert check(folder, "--write-requests", str(files))[0] == 0
    model = Model(source, Dialect.V2, off_by(2e-3))
    for number in (1, 2):
        body = json.loads((files / f"request-{number}.json").read_text())
        (files / f"answer-{number}.json").write_text(json.dumps(model("", body)[1]))
    assert check(folder, "--read-answers", str(files))[0] == 1
    assert check(folder, "--read-answers", str(tmp_path / "none"))[0] == 1


def test_every_dtype_travels(bundle: Any, endpoint: Any) -> None:
    from transload.models.signature import DTYPES, TensorSpec

    specs = tuple(TensorSpec(f"x-{dtype}", dtype, ("batch", 2)) for dtype in DTYPES)
    signature = Signature(specs, tuple(replace(spec, name=spec.name.replace("x", "y")) for spec in specs))
    folder, source = bundle(Dialect.V2, signature)
    status, text = check(folder, endpoint(Model(source, Dialect.V2)).url)
    assert (status, text.count("is equal")) == (0, len(DTYPES))


def test_it_is_written_for_old_pythons() -> None:
    ast.parse(standalone(CHECK), feature_version=(3, 8))
