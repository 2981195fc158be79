"""Ask an endpoint the golden samples and compare its answers with those of the verified artifact.

    python3 check.py [URL] [--header "NAME: VALUE"] [--timeout SECONDS]
    python3 check.py --write-requests FOLDER       write the bodies as FOLDER/request-1.json and so on, and ask nobody
    python3 check.py --read-answers FOLDER         compare FOLDER/answer-1.json and so on, however they were fetched

Exit status 0: every answer lies within the tolerance of golden.json, and requests may have as many rows as the bundle
says; 1: one does not, or there is no answer.
Needs Python 3.8 or later, and nothing else.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import struct
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Callable  # noqa: UP035  (Python 3.8)

# Letters of the module struct by numpy's names; the names that the Open Inference Protocol has for them.
LETTERS = {
    "float16": "e", "float32": "f", "float64": "d", "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
}  # fmt: skip
DATATYPES = {
    "float16": "FP16", "float32": "FP32", "float64": "FP64", "bool": "BOOL", "int8": "INT8", "int16": "INT16",
    "int32": "INT32", "int64": "INT64", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64",
}  # fmt: skip


class CheckFailed(Exception):
    """An endpoint that gave no answer, or not the one that was expected."""


class RefusedRequest(CheckFailed):
    """A request that the endpoint says is wrong: a status of 400 to 499."""


LARGE_ROWS = 1000  # of a request without a limit


class GoldenTensor:
    """One input or output: its name, dtype, shape and flat values."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.name: str = row["name"]
        self.dtype: str = row["dtype"]
        self.shape: list[int] = row["shape"]
        content = base64.b64decode(row["base64"])
        self.values: list[Any] = list(struct.unpack(f"<{math.prod(self.shape)}{LETTERS[self.dtype]}", content))

    def repeated(self, rows: int) -> GoldenTensor:
        """Return a tensor of so many rows, each the first of this."""
        tensor = GoldenTensor.__new__(GoldenTensor)
        tensor.name, tensor.dtype, tensor.shape = self.name, self.dtype, [rows, *self.shape[1:]]
        tensor.values = self.values[: math.prod(self.shape[1:])] * rows
        return tensor

    def nested(self) -> Any:
        """Return the values as lists in lists, as the shape has them."""
        return _nested(self.values, self.shape)


def _nested(values: list[Any], shape: list[int]) -> Any:
    if not shape:
        return values[0]
    step = math.prod(shape[1:])
    return [_nested(values[at * step : (at + 1) * step], shape[1:]) for at in range(shape[0])]


def _flat(value: Any) -> list[Any]:
    """Return the numbers of nested lists in one list."""
    if not isinstance(value, list):
        return [value]
    return [number for item in value for number in _flat(item)]


def _shape(value: Any) -> list[int]:
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return shape


def write_v2(inputs: list[GoldenTensor]) -> dict[str, Any]:
    """Return the body of an infer request of the Open Inference Protocol; a single number is sent as a list of one."""
    rows = [
        {
            "name": tensor.name,
            "shape": tensor.shape or [1],
            "datatype": DATATYPES[tensor.dtype],
            "data": tensor.values,
        }
        for tensor in inputs
    ]
    return {"inputs": rows}


def read_v2(document: dict[str, Any], outputs: list[GoldenTensor]) -> dict[str, Any]:
    """Return shape and values of every output by name."""
    answers = {row["name"]: (row["shape"], _flat(row["data"])) for row in document["outputs"]}
    return {tensor.name: answers[tensor.name] for tensor in outputs}


def write_columns(inputs: list[GoldenTensor]) -> dict[str, Any]:
    """Return the body of a TF Serving request in columns: the whole batch of each input."""
    return {"inputs": {tensor.name: tensor.nested() for tensor in inputs}}


def read_columns(document: dict[str, Any], outputs: list[GoldenTensor]) -> dict[str, Any]:
    """Return shape and values of every output by name; a single output comes without its name."""
    answers = document["outputs"]
    named = {outputs[0].name: answers} if len(outputs) == 1 else answers
    return {tensor.name: (_shape(named[tensor.name]), _flat(named[tensor.name])) for tensor in outputs}


def write_rows(inputs: list[GoldenTensor]) -> dict[str, Any]:
    """Return the body of a TF Serving or Vertex AI request in rows: one element for each sample of the batch."""
    columns = [(tensor.name, tensor.nested()) for tensor in inputs]
    count = inputs[0].shape[0]
    return {"instances": [{name: values[at] for name, values in columns} for at in range(count)]}


def read_rows(document: dict[str, Any], outputs: list[GoldenTensor]) -> dict[str, Any]:
    """Return shape and values of every output by name."""
    rows = document["predictions"]
    if len(outputs) == 1:
        columns = {outputs[0].name: rows}
    else:
        columns = {tensor.name: [row[tensor.name] for row in rows] for tensor in outputs}
    return {name: (_shape(values), _flat(values)) for name, values in columns.items()}


WRITERS = {"v2": write_v2, "columns": write_columns, "rows": write_rows}
READERS = {"v2": read_v2, "columns": read_columns, "rows": read_rows}


class OutputAgreement:
    """How the answers of one output agree with the golden ones, over all calls."""

    def __init__(self) -> None:
        self.signal = 0.0
        self.noise = 0.0
        self.unequal = 0  # integers that differ
        self.count = 0

    def add(self, tensor: GoldenTensor, shape: list[int], values: list[Any]) -> None:
        """Compare one answer. Raises CheckFailed where its shape differs, or another element is NaN or infinite."""
        if (shape or [1]) != (tensor.shape or [1]) or len(values) != len(tensor.values):
            raise CheckFailed(f"{tensor.name} has the shape {shape}, expected {tensor.shape}")
        self.count += len(values)
        for at, expected in enumerate(tensor.values):
            self._add_value(tensor, at, expected, values[at])

    def _add_value(self, tensor: GoldenTensor, at: int, expected: Any, actual: Any) -> None:
        if "float" not in tensor.dtype:
            self.unequal += expected != actual
            return
        if not isinstance(actual, (int, float)):
            raise CheckFailed(f"{tensor.name}: element {at} is {actual!r}, expected {expected!r}")
        if not (math.isfinite(expected) and math.isfinite(actual)):
            if str(float(expected)) != str(float(actual)):
                raise CheckFailed(f"{tensor.name}: element {at} is {actual!r}, expected {expected!r}")
            return
        self.signal += expected * expected
        self.noise += (actual - expected) ** 2

    @property
    def decibels(self) -> float:
        """Signal to noise in dB; infinite where nothing differs."""
        if not self.noise:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf


def judge(name: str, agreement: OutputAgreement, tolerance: dict[str, float]) -> bool:
    """Print how an output agrees, and return whether that lies within the tolerance."""
    share = agreement.unequal / agreement.count if agreement.count else 0.0
    passed = agreement.decibels >= tolerance["least_db"] and share <= tolerance["most_unequal"]
    if agreement.unequal:
        how = f"{agreement.unequal} of {agreement.count} integers differ, at most {tolerance['most_unequal']:.0%} may"
    elif agreement.noise:
        how = f"agrees to {agreement.decibels:.1f} dB, at least {tolerance['least_db']:.1f} dB are needed"
    else:
        how = "is equal"
    print(f"{'pass' if passed else 'FAIL'}  {name} {how}")
    return passed


def ask(url: str, body: dict[str, Any], headers: dict[str, str], timeout_s: float) -> dict[str, Any]:
    """Return the answer to one request. Raises CheckFailed where there is none."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as reply:  # noqa: S310  (the URL of the caller's server)
            return parse(reply.read(), url)
    except urllib.error.HTTPError as error:
        said = error.read(400).decode(errors="replace").strip()
        kind = RefusedRequest if 400 <= error.code < 500 else CheckFailed
        raise kind(f"{url} answered {error.code}: {said}") from error
    except (OSError, ValueError) as error:
        raise CheckFailed(f"{url} gave no answer: {getattr(error, 'reason', error)}") from error


def parse(content: bytes, source: str) -> dict[str, Any]:
    """Return a JSON object. Raises CheckFailed where it is none."""
    try:
        document = json.loads(content)
    except ValueError as error:
        raise CheckFailed(f"{source} is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise CheckFailed(f"{source} holds no JSON object")
    return document


def endpoint(url: str, golden: dict[str, Any]) -> str:
    """Return the URL to ask: the bundle's path is added to a bare address."""
    parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
    path = parts.path if parts.path.strip("/") else golden["path"]
    return f"{parts.scheme}://{parts.netloc}{path}" + (f"?{parts.query}" if parts.query else "")


def run(arguments: argparse.Namespace, golden: dict[str, Any]) -> bool:
    """Ask everything and print a line for each output; return whether all of them agree."""
    write, read = WRITERS[golden["dialect"]], READERS[golden["dialect"]]
    url = endpoint(arguments.url or golden["url"], golden)
    headers = dict(part.split(":", 1) for part in arguments.header)
    agreements: dict[str, OutputAgreement] = {}
    for number, call in enumerate(golden["calls"], 1):
        body = write([GoldenTensor(row) for row in call["inputs"]])
        outputs = [GoldenTensor(row) for row in call["outputs"]]
        if arguments.write_requests:
            file = Path(arguments.write_requests) / f"request-{number}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(body))
            print(f"wrote {file}")
            continue
        if arguments.read_answers:
            file = Path(arguments.read_answers) / f"answer-{number}.json"
            document = parse(file.read_bytes(), str(file))
        else:
            document = ask(url, body, {name: value.strip() for name, value in headers.items()}, arguments.timeout)
        compare(document, outputs, read, agreements)
    verdicts = [judge(name, agreement, golden["tolerance"]) for name, agreement in agreements.items()]  # print them all
    if "rows" in golden and not (arguments.write_requests or arguments.read_answers):
        stripped = {name: value.strip() for name, value in headers.items()}
        verdicts.append(check_rows(golden, lambda body: ask(url, body, stripped, arguments.timeout)))
    return all(verdicts)


def check_rows(golden: dict[str, Any], answer: Callable[[dict[str, Any]], dict[str, Any]]) -> bool:
    """Ask as many rows as the limit, and one more, which is to be refused; without a limit, many rows. Print how it
    went, and return whether it went so."""
    limit, (call, *_) = golden["rows"]["limit"], golden["calls"]
    inputs, outputs = ([GoldenTensor(row) for row in call[side]] for side in ("inputs", "outputs"))
    most = golden["rows"]["most_numbers"] // sum(math.prod(tensor.shape[1:]) for tensor in inputs)
    rows = min(LARGE_ROWS, most) if limit is None else limit
    if rows + 1 > most + (limit is None) or rows <= max(tensor.shape[0] for tensor in inputs):
        print(f"      requests of {'many' if limit is None else limit} rows are not asked: their rows are too large")
        return True
    write, read = WRITERS[golden["dialect"]], READERS[golden["dialect"]]
    answers = read(answer(write([tensor.repeated(rows) for tensor in inputs])), outputs)
    if any(shape[:1] != [rows] for shape, _ in answers.values()):
        print(f"FAIL  a request of {rows} rows is answered by other rows")
        return False
    if limit is None:
        print(f"pass  a request of {rows} rows is answered")
        return True
    try:
        answer(write([tensor.repeated(rows + 1) for tensor in inputs]))
    except RefusedRequest:
        print(f"pass  a request of {rows} rows is answered, and one of {rows + 1} is refused")
        return True
    print(f"FAIL  a request of {rows + 1} rows is answered, and {rows} is the limit")
    return False


def compare(
    document: dict[str, Any], outputs: list[GoldenTensor], read: Any, agreements: dict[str, OutputAgreement]
) -> None:
    """Add one answer to the agreements. Raises CheckFailed where it lacks an output."""
    try:
        answers = read(document, outputs)
    except (KeyError, TypeError, IndexError) as error:
        said = json.dumps(document)[:200]
        raise CheckFailed(f"the answer lacks outputs ({error!r}): {said}") from error
    for tensor in outputs:
        shape, values = answers[tensor.name]
        agreements.setdefault(tensor.name, OutputAgreement()).add(tensor, shape, values)


def main() -> int:
    """Check the endpoint that the command line names; return the exit status."""
    parser = argparse.ArgumentParser(description="Compare an endpoint with the verified artifact of this bundle.")
    parser.add_argument("url", nargs="?", help="http://HOST:PORT, or a whole URL")
    parser.add_argument("--header", action="append", default=[], metavar="NAME:VALUE", help="such as a token")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--write-requests", metavar="FOLDER")
    parser.add_argument("--read-answers", metavar="FOLDER")
    arguments = parser.parse_args()
    golden = json.loads((Path(__file__).resolve().parent / "golden.json").read_text())
    try:
        return 0 if run(arguments, golden) else 1
    except (CheckFailed, OSError) as error:
        print(f"FAIL  {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
