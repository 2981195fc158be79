"""Upgrade of a `.pt2` file of torch 2.2 to 2.7, whose parts lie at the archive's root, to the layout of later ones.

The file is rewritten as text and bytes, and nothing in it is run or unpickled: the program's JSON gets the fields of
schema 8, and the pickles of weights are copied. `check_pt2` then checks the result like any other file.

Which torch wrote which schema, and what differs (torch/_export/serde/schema.py of each release):

| schema | torch | differs from schema 8 by |
|---|---|---|
| 2 | 2.2 | all fields of a union are there, most null; offsets are plain numbers; no `persistent`; ranges begin at 2 |
| 5.1 | 2.3 | optional tensors are names; `as_none` is a list |
| 5.3 | 2.4 | `as_none` is a list; `dialect` in place of `verifiers`; true and false among the inputs are numbers |
| 7 | 2.5 | `as_none` is a list; true and false among the inputs are numbers |
| 8 | 2.6, 2.7 | the layout; calls of graphs do not say how many tensors they return (torch 2.6) |
"""

from __future__ import annotations

import ast
import json
import math
import re
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....models.errors import BadRequest
from ....models.formats.pt2 import OLD_PROGRAM
from ..file_content import names_in_archive, opened_archive
from .pt2_texts import check_expression

SCHEMA = (8, 2)  # of the programs that are written here: torch 2.6's, the first that torch 2.13 reads
# By the oldest schema of each torch; (1, 0) and those between belong to torch 2.1 and nightly builds.
_WRITERS = {(1, 0): "2.1", (2, 0): "2.2", (5, 1): "2.3", (5, 3): "2.4", (7, 3): "2.5", (8, 0): "2.6 or 2.7"}
_READABLE = {2, 5, 7, 8}  # major versions
_PARTS = re.compile(
    r"serialized_(exported_program\.json|(state_dict|constants|example_inputs)\.(json|pt))|version|extra_files/.+"
)
_COPIED = {"state_dict": "weights", "constants": "constants", "example_inputs": "sample_inputs"}
_WRITE_AGAIN = "copy it again, or write it again with torch.export.save"
_RENAMED = {  # of torch 2.4
    "torch._higher_order_ops.wrap.wrap_with_set_grad_enabled": "torch.ops.higher_order.wrap_with_set_grad_enabled",
}
_SYMBOLS = {"s": "positive=True, integer=True", "u": "integer=True"}  # by their letter: sizes, and numbers from data
_MARKS = {"archive_format": "pt2", "archive_version": "0", "byteorder": "little", ".data/version": "3"}
_MAX_VERSION = 16  # characters of the file `version`


def is_old_layout(path: Path) -> bool:
    """Return whether an archive keeps its program at the root, as torch before 2.8 wrote it. A broken one does not."""
    return OLD_PROGRAM in names_in_archive(path)


def upgrade_pt2(path: Path, upgraded: Path) -> None:
    """Write the program of a file of the old layout to `upgraded`, in the layout and schema that torch reads now.

    Raises BadRequest if it is no complete file, or one of a schema that is not known.
    """
    with opened_archive(path, "file of torch.export.save", _WRITE_AGAIN, ignores_case=True) as archive:
        names = archive.namelist()
        for name in names:
            if not _PARTS.fullmatch(name):
                raise BadRequest(f"{path} holds {name}, which torch.export.save does not write", fix=_WRITE_AGAIN)
        version = _version(archive, path)
        program = json.loads(archive.read(OLD_PROGRAM).decode("utf-8"))
        parts = {part: [name for name in names if name.startswith(f"serialized_{part}.")] for part in _COPIED}
        if any(len(parts[part]) != 1 for part in ("state_dict", "constants")) or len(parts["example_inputs"]) > 1:
            raise BadRequest(f"{path} has not one set of weights and one of constants", fix=_WRITE_AGAIN)
        with zipfile.ZipFile(upgraded, "w") as new:
            for name, text in _MARKS.items():
                new.writestr(f"model/{name}", text)
            new.writestr("model/models/model.json", json.dumps(_upgraded(program, version), allow_nan=False))
            for part, folder in _COPIED.items():
                _copy(archive, new, parts[part], f"model/data/{folder}/model.pt")
            for name in names:
                if name.startswith("extra_files/"):
                    _copy(archive, new, [name], f"model/extra/{name.removeprefix('extra_files/')}")


def _copy(archive: zipfile.ZipFile, new: zipfile.ZipFile, names: list[str], entry: str) -> None:
    """Copy an entry; write an empty one where there is none, as torch 2.2 kept no inputs. Torch reads that as none."""
    with new.open(entry, "w", force_zip64=True) as written:
        for name in names:
            with archive.open(name) as read:
                shutil.copyfileobj(read, written)


def _version(archive: zipfile.ZipFile, path: Path) -> tuple[int, int]:
    """Return the schema's version. Raises BadRequest if programs of that schema are not upgraded."""
    text = archive.read("version").decode("ascii")
    if len(text) > _MAX_VERSION or not re.fullmatch(r"\d{1,4}(\.\d{1,4})?", text):
        raise BadRequest(f"{path} names no version of its schema", fix=_WRITE_AGAIN)
    major, _, minor = text.partition(".")
    version = int(major), int(minor or 0)
    if version[0] in _READABLE:
        return version
    if version[0] > SCHEMA[0]:
        whose = "a torch that is newer than the one here"
    else:
        older = [writer for first, writer in _WRITERS.items() if first <= version]
        whose = f"torch {older[-1]} or a nightly build after it" if older else "a torch before 2.1"
    raise BadRequest(
        f"{path} was saved by {whose} (schema {text}), and programs of torch 2.2 to 2.7 are the ones that are upgraded",
        fix="save it again with torch 2.2 or later, or name a TorchScript or ONNX file that the same torch wrote",
    )


def _upgraded(program: Any, version: tuple[int, int]) -> dict[str, Any]:
    """Return a program's JSON with the fields of schema 8; what has no place in it is left for the check to refuse."""
    new: dict[str, Any] = _in_schema_8(program)
    new["schema_version"] = dict(zip(("major", "minor"), SCHEMA, strict=True))
    if "dialect" in new:
        new["verifiers"] = [new.pop("dialect")]
    ranges = program["range_constraints"].items()
    new["range_constraints"] = {symbol: _range(limits, version) for symbol, limits in ranges}
    return new


def _range(limits: Mapping[str, Any], version: tuple[int, int]) -> dict[str, int | None]:
    """Return the range of a size. Torch 2.2 wrote 2 for "no least size": it called sizes of 0 and 1 with the same
    program, as its runtime assertions show (torch/_export/passes/add_runtime_assertions_for_constraints_pass.py)."""
    low, high = (None if isinstance(limits[end], float) else limits[end] for end in ("min_val", "max_val"))
    return {"min_val": 1 if version[0] == 2 and low == 2 else low, "max_val": high}


def _in_schema_8(value: Any, name: str = "") -> Any:
    """Return a value of the JSON, which stands in the field `name`, as schema 8 writes it."""
    if isinstance(value, dict):
        return _record({key: _in_schema_8(item, key) for key, item in value.items() if item is not None}, name)
    if isinstance(value, list):
        return True if name == "as_none" else [_in_schema_8(item, name) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value).replace("inf", "Infinity").replace("nan", "NaN")
    return {"as_int": value} if name == "storage_offset" and type(value) is int else value


def _record(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """Return an object, whose parts are those of schema 8 already."""
    if name == "nodes":
        return _node(fields)
    if isinstance(fields.get("expr_str"), str):
        return {**fields, "expr_str": _with_assumptions(fields["expr_str"])}
    if name == "as_optional_tensors" and isinstance(fields.get("as_tensor"), str):
        return {"as_tensor": {"name": fields["as_tensor"]}}
    if name == "buffer" and "buffer_name" in fields:
        return {"persistent": True, **fields}
    if name == "value" and type(fields.get("as_int")) is bool:  # torch 2.4 asked for a whole number first
        return {"as_bool": fields["as_int"]}
    return fields


def _with_assumptions(text: str) -> str:
    """Return the size of an axis with symbols that are declared whole and positive, and with torch's floor division.

    Torch before 2.6 wrote `4*s0`. Read as it stands, that `s0` differs from the one that torch makes for the inputs.
    """
    try:
        check_expression(text)
        return ast.unparse(_Assumptions().visit(ast.parse(text.strip(), mode="eval")))
    except ValueError:
        return text  # the check of the upgraded file refuses it, and says why


class _Assumptions(ast.NodeTransformer):
    """Replaces symbols by calls of Symbol, and `//` by a call of FloorDiv."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "Symbol":
            return node
        node.args = [self.visit(argument) for argument in node.args]
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        assumptions = _SYMBOLS.get(re.sub(r"\d+$", "", node.id))
        if assumptions is None or node.id in _SYMBOLS:
            return node
        return ast.parse(f"Symbol({node.id!r}, {assumptions})", mode="eval").body

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.FloorDiv):
            return node
        return ast.Call(ast.Name("FloorDiv", ast.Load()), [node.left, node.right], [])


def _node(node: dict[str, Any]) -> dict[str, Any]:
    """Return a call as schema 8 writes it, without the paths of its modules, which nothing needs."""
    node["target"] = _RENAMED.get(node["target"], node["target"])
    node["metadata"] = {key: node["metadata"][key] for key in ("stack_trace",) if key in node["metadata"]}
    if node["target"].startswith("torch.ops.higher_order."):
        node.setdefault("is_hop_single_tensor_return", True)  # torch reads an absent field as False, and means True
    return node
