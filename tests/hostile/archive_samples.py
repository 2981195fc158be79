"""PyTorch archives that try to run code, write a file or never end: `write_samples` makes them in a folder.

The only payload is an empty file, the sample's `marker`, so that whoever loads or calls a sample sees whether it
worked. Each is a good archive with one part changed.
"""

from __future__ import annotations

import json
import pickle
import struct
import sys
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

Program = dict[str, Any]  # models/model.json of a .pt2 file
Files = dict[str, bytes]  # of an archive, by name


@dataclass(frozen=True)
class Sample:
    """A hostile archive: a model that takes x=float32[batch,4]."""

    path: Path
    attempt: str  # what it tries, as the end of a sentence

    @property
    def marker(self) -> Path:
        """The file that is there if the attempt succeeded."""
        return marker_of(self.path)


def marker_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.executed")


def write_samples(folder: Path) -> list[Sample]:
    """Write every sample into a folder, and the good archives that they were made from (`good.pt2`, `good.pt`)."""
    samples = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript
        good = write_good(folder)
        for suffix, cases in ((".pt2", PROGRAMS), (".pt", SCRIPTS)):
            for name, (attempt, change) in cases.items():
                path = folder / f"{name}{suffix}"
                change(read_files(good[suffix]), path)
                samples.append(Sample(path, attempt))
    return samples


def write_good(folder: Path) -> dict[str, Path]:
    """Write one good archive of each kind."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    torch.manual_seed(0)
    net = Net().eval()
    paths = {suffix: folder / f"good{suffix}" for suffix in (".pt2", ".pt")}
    batch = {0: torch.export.Dim("batch", max=100)}
    torch.export.save(torch.export.export(net, (torch.randn(3, 4),), dynamic_shapes=(batch,)), paths[".pt2"])
    torch.jit.save(torch.jit.script(net), paths[".pt"])
    return paths


def read_files(path: Path) -> Files:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_files(files: Mapping[str, bytes], path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


Change = Callable[[Files, Path], None]  # writes the sample to the path


class Touch:
    """Whoever unpickles this writes the marker."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.marker), "w")


def evil_pickle(path: Path) -> bytes:
    return pickle.dumps(Touch(marker_of(path)), protocol=2)


def python(path: Path) -> str:
    """Python that writes the marker, as an expression."""
    return f"open({str(marker_of(path))!r}, 'w')"


# --- Both kinds: what two readers of one zip read differently.


def file_named(files: Files, end: str) -> str:
    return next(name for name in files if name.endswith(end))


def with_pickle(files: Files, path: Path, end: str) -> Files:
    return {name: evil_pickle(path) if name.endswith(end) else content for name, content in files.items()}


def appended(end: str) -> Change:
    """Two whole archives one after another: a hostile one, and the good one in which a check may look."""

    def change(files: Files, path: Path) -> None:
        parts = []
        for version in (with_pickle(files, path, end), files):
            write_files(version, path)
            parts.append(path.read_bytes())
        path.write_bytes(b"".join(parts))

    return change


def two_directories(end: str) -> Change:
    """Two directories, a good and a hostile one. The locator of the second stands in a comment of the first: PyTorch
    follows it, Python finds no directory of 64 bits where it looks for one, and takes the first."""

    def change(files: Files, path: Path) -> None:
        write_files(with_pickle(files, path, end), path)
        evil = path.read_bytes()
        evil_count, evil_size, evil_start = struct.unpack("<HII", evil[-12:-2])
        write_files(files, path)
        good = path.read_bytes()
        count, size, start = struct.unpack("<HII", good[-12:-2])
        directory = _shift_directory(good[start : start + size], len(evil))
        wide = struct.pack(
            "<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, evil_count, evil_count, evil_size, evil_start
        )
        head = evil + good[:start] + wide
        directory += struct.pack("<4sIQI", b"PK\x06\x07", 0, len(head) - len(wide), 1)
        record = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, count, count, len(directory), len(head), 0)
        path.write_bytes(head + directory + record)

    return change


def _shift_directory(directory: bytes, by: int) -> bytes:
    """Return a zip's directory with each file `by` bytes further on, and 20 bytes of comment to come after the last."""
    content, position, last = bytearray(directory), 0, 0
    while position < len(content):
        name, extra, comment = struct.unpack_from("<HHH", content, position + 28)
        (offset,) = struct.unpack_from("<I", content, position + 42)
        struct.pack_into("<I", content, position + 42, offset + by)
        last, position = position, position + 46 + name + extra + comment
    struct.pack_into("<H", content, last + 32, 20)
    return bytes(content)


def twice(end: str) -> Change:
    """A file that is there twice; readers take the first or the last."""

    def change(files: Files, path: Path) -> None:
        name = file_named(files, end)
        with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
            warnings.simplefilter("ignore")  # of the second
            archive.writestr(name, evil_pickle(path))
            for other, content in files.items():
                archive.writestr(other, content)

    return change


def in_upper_case(end: str, content: Callable[[bytes, Path], bytes]) -> Change:
    """A file under a name that only a reader that ignores case finds."""

    def change(files: Files, path: Path) -> None:
        name = file_named(files, end)
        root, _, inner = name.partition("/")
        write_files(
            {(f"{root}/{inner.upper()}" if key == name else key): (content(value, path) if key == name else value)
             for key, value in files.items()},
            path,
        )  # fmt: skip

    return change


def header_name(end: str) -> Change:
    """A file whose own header gives it another name than the directory does."""

    def change(files: Files, path: Path) -> None:
        write_files(files, path)
        name = file_named(files, end).encode()
        path.write_bytes(path.read_bytes().replace(name, name[:-1] + b"_", 1))

    return change


def renamed(end: str, to: str) -> Change:
    def change(files: Files, path: Path) -> None:
        write_files({(to if name.endswith(end) else name): content for name, content in files.items()}, path)

    return change


def between(files: Files, path: Path) -> None:
    """Bytes that no directory knows, before all files."""
    write_files(files, path)
    path.write_bytes(evil_pickle(path) + path.read_bytes())


# --- .pt2: torch evaluates texts in the program.


def program(change: Callable[[Program, Path], object]) -> Change:
    def write(files: Files, path: Path) -> None:
        name = file_named(files, "models/model.json")
        content = json.loads(files[name])
        change(content, path)
        write_files(files | {name: json.dumps(content).encode()}, path)

    return write


def graph_of(program: Program) -> Program:
    graph: Program = program["graph_module"]["graph"]
    return graph


def rename(program: Program, name: str, to: str) -> None:
    """Rename a value of the graph wherever it stands."""
    text = json.dumps(program).replace(json.dumps(name), json.dumps(to))
    program.clear()
    program.update(json.loads(text))


def in_axis(program: Program, path: Path) -> None:
    for meta in graph_of(program)["tensor_values"].values():
        for size in meta["sizes"]:
            if "as_expr" in size:
                size["as_expr"]["expr_str"] = python(path)


def in_guard(program: Program, path: Path) -> None:
    program["guards_code"] = [f"{python(path)} != None"]


def in_input_name(program: Program, path: Path) -> None:
    rename(program, "x", f"x={python(path)}")


def in_node_name(program: Program, path: Path) -> None:
    rename(program, "linear", f"linear = {python(path)}; linear")


def in_weight_name(files: Files, path: Path) -> None:
    """The name of a weight, which becomes code that fetches it: `getattr(self, "NAME")`."""
    evil = f'inner"), {python(path)}][0], "weight'
    write_files(
        {name: content.replace(b"inner.weight", json.dumps(evil)[1:-1].encode()) if name.endswith(".json") else content
         for name, content in files.items()},
        path,
    )  # fmt: skip


def in_text_input(program: Program, path: Path) -> None:
    """An input that is a text, which becomes a guard: `L['args'][1] == 'TEXT'`."""
    evil = f"' or {python(path)} or '"
    graph_of(program)["inputs"].append({"as_string": evil})
    spec = {"constant_input": {"name": "mode", "value": {"as_string": evil}}}
    program["graph_module"]["signature"]["input_specs"].append(spec)
    call = program["graph_module"]["module_call_graph"][0]["signature"]
    call["inputs"].append({"as_string": evil})
    in_spec = json.loads(call["in_spec"])
    in_spec[1]["children_spec"][0]["children_spec"].append({"type": None, "context": None, "children_spec": []})
    call["in_spec"] = json.dumps(in_spec)


def in_tree(program: Program, path: Path) -> None:
    """The structure of the inputs names a module, which torch imports: a file beside the sample."""
    (path.parent / "sample_module.py").write_text(f"factory = {python(path)}\n")
    factory = {"default_factory_module": "sample_module", "default_factory_name": "factory", "dict_context": "[]"}
    tree = {"type": "collections.defaultdict", "context": factory, "children_spec": []}
    program["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = json.dumps([1, tree])


def in_tree_enum(program: Program, path: Path) -> None:
    """The same by a key of a dict, which is said to be a member of an enumeration."""
    (path.parent / "sample_enum.py").write_text(f"Factory = {python(path)}\n")
    key = json.dumps([{"__enum__": True, "fqn": "sample_enum:Factory", "name": "x"}])
    tree = {"type": "builtins.dict", "context": key, "children_spec": []}
    program["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = json.dumps([1, tree])


def called_operator(target: str, *arguments: tuple[str, Program]) -> Change:
    """A further node of the graph, before the others."""

    def change(program: Program, path: Path) -> None:
        graph = graph_of(program)
        meta = {"dtype": 7, "sizes": [{"as_int": 4}], "requires_grad": False, "device": {"type": "cpu", "index": None},
                "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7}  # fmt: skip
        graph["tensor_values"]["added"] = meta
        inputs: list[Program] = []
        for name, value in arguments:
            text = str(marker_of(path))
            inputs.append({"name": name, "arg": {k: text if v == "MARKER" else v for k, v in value.items()}, "kind": 1})
        rest: Program = {"metadata": {}, "is_hop_single_tensor_return": None}
        node = {"target": target, "inputs": inputs, "outputs": [{"as_tensor": {"name": "added"}}], "name": "added"}
        node |= rest
        graph["nodes"].insert(0, node)
        add = {"target": "torch.ops.aten.add.Tensor", **rest,
               "name": "moved", "outputs": [{"as_tensor": {"name": "moved"}}],
               "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1},
                          {"name": "other", "arg": {"as_tensor": {"name": "added"}}, "kind": 1}]}  # fmt: skip
        graph["tensor_values"]["moved"] = graph["tensor_values"]["x"]
        for later in graph["nodes"][1:]:
            for row in later["inputs"]:
                if row["arg"] == {"as_tensor": {"name": "x"}}:
                    row["arg"] = {"as_tensor": {"name": "moved"}}
        graph["nodes"].insert(1, add)

    return program(change)


def in_trace(program: Program, path: Path) -> None:
    """A line in the record of where a node came from, which torch prints into code as a comment."""
    node = graph_of(program)["nodes"][0]
    trace = f'  File "net.py", line 1, in forward\n    x\r    {python(path)}'
    node["metadata"]["stack_trace"] = trace


def power_tower(program: Program, path: Path) -> None:
    graph_of(program)["tensor_values"]["x"]["sizes"][0]["as_expr"]["expr_str"] = "9**9**9**9"


def nested_axis(program: Program, path: Path) -> None:
    text = "(" * 40_000 + "1" + ")" * 40_000
    graph_of(program)["tensor_values"]["x"]["sizes"][0]["as_expr"]["expr_str"] = text


def nested_json(files: Files, path: Path) -> None:
    name = file_named(files, "models/model.json")
    write_files(files | {name: b'{"graph_module": ' * 100_000}, path)


MARKER = {"as_string": "MARKER"}
PROGRAMS: Mapping[str, tuple[str, Change]] = {
    "axis": ("runs Python in the size of an axis", program(in_axis)),
    "guard": ("runs Python in a guard", program(in_guard)),
    "input-name": ("runs Python in the name of an input", program(in_input_name)),
    "node-name": ("runs Python in the name of a value", program(in_node_name)),
    "weight-name": ("runs Python in the name of a weight", in_weight_name),
    "text-input": ("runs Python in an input that is a text", program(in_text_input)),
    "tree-module": ("imports a module that the structure of its outputs names", program(in_tree)),
    "tree-enum": ("imports a module that the key of a dict names", program(in_tree_enum)),
    "stack-trace": ("runs Python in the record of a node's origin", program(in_trace)),
    "from-file": (
        "writes a file by aten.from_file",
        called_operator("torch.ops.aten.from_file.default", ("filename", MARKER), ("shared", {"as_bool": True}),
                        ("size", {"as_int": 4})),
    ),
    "python-function": ("calls a function of Python", called_operator("torch.os.mkdir", ("path", MARKER))),
    "image-write": (
        "writes a file by an operator of torchvision",
        called_operator("torch.ops.image.write_file.default", ("filename", MARKER),
                        ("data", {"as_tensor": {"name": "x"}})),
    ),
    "library-operator": (
        "calls an operator of a library that is not known",
        called_operator("torch.ops.c10d.barrier.default", ("tensor", {"as_tensor": {"name": "x"}})),
    ),
    "power-tower": ("computes for ever in the size of an axis", program(power_tower)),
    "nested-axis": ("nests the size of an axis deeply", program(nested_axis)),
    "nested-json": ("nests its program deeply", nested_json),
    "two-archives": ("shows two readers two archives", appended("sample_inputs/model.pt")),
    "two-directories": ("shows two readers two directories", two_directories("sample_inputs/model.pt")),
    "twice": ("holds its sample twice, once as a pickle", twice("sample_inputs/model.pt")),
    "upper-case": (
        "hides a pickle under a name in upper case",
        in_upper_case("data/sample_inputs/model.pt", lambda _, path: evil_pickle(path)),
    ),
    "header-name": ("names a file differently in its header", header_name("sample_inputs/model.pt")),
    "backslash": ("holds a file with a backslash in its name", renamed("sample_inputs/model.pt", "good\\data\\x.pt")),
    "parent": ("holds a file that leads out of its folder", renamed("/byteorder", "../byteorder")),
    "before": ("hides bytes before its files", between),
}  # fmt: skip


# --- TorchScript: code that torch's own interpreter runs, some of it while it loads.


def code(line: str, *, method: str = "") -> Change:
    """The good module with a line before its return, and a further method. MARKER in them is the marker."""

    def write(files: Files, path: Path) -> None:
        name = code_of(files)
        module = PurePosixPath(name).stem
        text = files[name].decode().replace("    return ", f"    {line}\n    return ", 1) + method
        text = text.replace("MARKER", str(marker_of(path))).replace("{module}", module)
        write_files(files | {name: text.encode()}, path)

    return write


def code_of(files: Files) -> str:
    return next(name for name, content in files.items() if name.endswith(".py") and b"class Net(" in content)


def code_in_upper_case(files: Files, path: Path) -> None:
    code('torch.save(x, "MARKER")')(files, path)
    changed = read_files(path)
    name = code_of(changed)
    root, _, inner = name.partition("/")
    write_files({f"{root}/{inner.upper()}" if key == name else key: value for key, value in changed.items()}, path)


def older_format(files: Files, path: Path) -> None:
    """An archive that has the model of the format before this one, too, which torch then reads."""
    root = code_of(files).partition("/")[0]
    write_files(files | {f"{root}/model.json": b'{"protoVersion": "6", "mainModule": {}, "tensors": []}'}, path)


def sparse_pickle(files: Files, path: Path) -> None:
    """The first file of the archive is 1 TB, by its header."""
    write_files(files, path)
    content = bytearray(path.read_bytes())
    start = content.rindex(b"PK\x01\x02", 0, len(content) - 22)
    struct.pack_into("<II", content, start + 20, 0xFFFFFFF0, 0xFFFFFFF0)
    path.write_bytes(content)


def save_at_load(files: Files, path: Path) -> None:
    """A module with a state of its own, and a line in the method that torch runs to restore it."""
    import torch

    class Stateful(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

        @torch.jit.export
        def __getstate__(self) -> tuple[bool, bool]:
            return (self.training, True)

        @torch.jit.export
        def __setstate__(self, state: tuple[bool, bool]) -> None:
            self.training = state[0]

    torch.jit.save(torch.jit.script(Stateful()), path)
    changed = read_files(path)
    name = next(name for name, content in changed.items() if b"__setstate__" in content and name.endswith(".py"))
    before, method, after = changed[name].decode().partition("def __setstate__")
    body = after.index(":\n", after.index("->")) + 2
    after = f'{after[:body]}    (torch.save)(1, "{marker_of(path)}")\n{after[body:]}'
    write_files(changed | {name: f"{before}{method}{after}".encode()}, path)


SCRIPTS: Mapping[str, tuple[str, Change]] = {
    "save": ("writes a file by aten::save", code('torch.save(x, "MARKER")')),
    "save-in-parentheses": ("writes a file by aten::save in parentheses", code('(torch.save)(x, "MARKER")')),
    "save-continued": ("writes a file by aten::save over two lines", code('torch.save\\\n(x, "MARKER")')),
    "save-by-name": ("writes a file by aten::save under another name", code('f = torch.save\n    f(x, "MARKER")')),
    "save-by-getattr": ("writes a file by aten::save, asked for by text", code('getattr(torch, "save")(x, "MARKER")')),
    "save-of-ops": ("writes a file by aten::save, as one of ops", code('(ops.aten.save)(x, "MARKER")')),
    "save-of-autograd": ("writes a file by aten::save of a further name", code('(torch.autograd.save)(x, "MARKER")')),
    "save-as-method": ("writes a file by aten::save as a method", code('(x.save)("MARKER")')),
    "save-in-upper-case": ("writes a file in a file of code in upper case", code_in_upper_case),
    "save-in-fork": (
        "writes a file by aten::save in a fork",
        code("x = torch.wait(fork(self.other, x))", method="""  def other(self: __torch__.{module}.Net,
    x: Tensor) -> Tensor:
    (torch.save)(x, "MARKER")
    return x
"""),
    ),
    "save-at-load": ("writes a file by aten::save while it is loaded", save_at_load),
    "from-file": (
        "writes a file by aten::from_file in parentheses",
        code('x = torch.add(x, (torch.from_file)("MARKER", True, 4))'),
    ),
    "endless": ("never ends", code("while True:\n      x = torch.add(x, 1)")),
    "endless-later": (
        "never ends for large values",
        code("while bool(torch.any(torch.gt(torch.abs(x), 100))):\n      x = torch.add(x, 1)"),
    ),
    "other-library": ("calls an operator of a library that is not known", code("_0 = (ops.c10d.barrier)(x)")),
    "older-format": ("is of the format before this one, too", older_format),
    "two-archives": ("shows two readers two archives", appended("/data.pkl")),
    "two-directories": ("shows two readers two directories", two_directories("/data.pkl")),
    "twice": ("holds its pickle twice", twice("/data.pkl")),
    "header-name": ("names a file differently in its header", header_name("/constants.pkl")),
    "before": ("hides bytes before its files", between),
    "sparse": ("says that it holds a file of 4 GB", sparse_pickle),
}  # fmt: skip


if __name__ == "__main__":
    for sample in write_samples(Path(sys.argv[1])):
        print(f"{sample.path}: {sample.attempt}")
