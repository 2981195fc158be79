"""Check of the code in a TorchScript archive, before PyTorch compiles it: loading may already run a part of it.

PyTorch prints a model's code in a small part of Python's grammar, with each operator as `torch.NAME` or
`ops.SPACE.NAME`, each class as `__torch__.PATH.NAME`, and each attribute declared in its class. The code is parsed with
Python's parser and held against that. PyTorch's own parser might read other code differently; so what is allowed
outside of texts are letters, digits and a few signs, which both split into the same words, and each word is checked.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from ..allowed_torch_operators import ALLOWED_ATEN, is_allowed

_TEXT = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"|' r"'(?:[^'\\\n]|\\[^\n])*'")
_SIGNS = re.compile(r"[\w \n\0.,:=()\[\]{}<>!+\-*/%&|~@]*", re.ASCII)  # outside of texts, each of which is a \0
_PREFIXED = re.compile(r"\w\0|\0 *\0")
_CONSTANT = re.compile(r"c\d+", re.ASCII)
# Names of the language. The attributes of `torch`, `ops`, `__torch__` and `CONSTANTS` have their own rules.
_LANGUAGE = """
torch ops __torch__ CONSTANTS annotate unchecked_cast uninitialized fork awaitable getattr hasattr isinstance range
print len int float bool str complex tuple list dict min max abs zip enumerate inf nan infj nanj None True False
Tensor NoneType Optional List Tuple Dict Union Final Any Future Await Device Stream Generator Storage Scalar number
RRef AnyEnumType AnyClassType Module NamedTuple Enum ModuleInterface Interface Device Layout ScalarType MemoryFormat
QScheme Function Capsule PyObject AnyListType AnyTupleType Set
"""
_NAMES = frozenset(_LANGUAGE.split())
_ROOTS = frozenset(("torch", "ops", "__torch__", "CONSTANTS"))
_REFUSED = frozenset(("save", "from_file", "rpc_async", "rpc_sync", "rpc_remote"))  # whatever they belong to
_CLASSES = frozenset(("quantized", "sparse", "xnnpack", "mkldnn"))  # namespaces of classes that C++ defines
# Methods of these classes, which are packed weights.
_METHODS = frozenset((
    "unpack", "run", "bias", "stride", "padding", "output_padding", "dilation", "groups", "transpose", "__getstate__",
    "__setstate__",
))  # fmt: skip
_STATEMENTS = (
    ast.Module, ast.ClassDef, ast.FunctionDef, ast.Assign, ast.AnnAssign, ast.Expr, ast.Return, ast.If, ast.While,
    ast.For, ast.Pass,
)  # fmt: skip
_EXPRESSIONS = (
    ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Dict,
    ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.keyword, ast.arg, ast.arguments, ast.expr_context,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip
_NO_TORCHSCRIPT = "holds code that torch.jit.save does not write"


class RefusedCodeError(ValueError):
    """Code that may do more than compute; the text ends the sentence "the archive ..."."""


def check_code(codes: Mapping[str, str]) -> None:
    """Check the files of code of one archive, by name. Raises RefusedCodeError with the name of the file."""
    trees = {}
    for name, code in codes.items():
        try:
            trees[name] = _parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise RefusedCodeError(f"{_NO_TORCHSCRIPT} ({name}), which may do more than compute") from error
    members = (frozenset(member for tree in trees.values() for member in _members(tree)) | _METHODS) - _REFUSED
    for name, tree in trees.items():
        try:
            _check_tree(tree, members)
        except ValueError as error:
            raise RefusedCodeError(f"{error} ({name}), which may do more than compute") from error


def _parse(code: str) -> ast.Module:
    """Parse code whose words PyTorch's parser finds, too."""
    bare = _TEXT.sub("\0", code.replace("\0", "\1"))
    if not _SIGNS.fullmatch(bare) or _PREFIXED.search(bare):
        raise ValueError
    return ast.parse(code)


def _members(tree: ast.Module) -> Iterator[str]:
    """Yield the attributes and methods that the classes of a file declare."""
    for item in tree.body:
        for part in item.body if isinstance(item, ast.ClassDef) else ():
            if isinstance(part, ast.FunctionDef):
                yield part.name
            elif isinstance(part, ast.AnnAssign | ast.Assign):
                for target in part.targets if isinstance(part, ast.Assign) else (part.target,):
                    if isinstance(target, ast.Name):
                        yield target.id
                    elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                        yield str(target.slice.value)  # __annotations__["0"] = ...


def _check_tree(tree: ast.Module, members: frozenset[str]) -> None:
    for item in tree.body:
        parts = item.body if isinstance(item, ast.ClassDef) else [item]
        for part in parts:
            _check_part(part, members)
        if isinstance(item, ast.ClassDef):
            for other in (*item.bases, *item.decorator_list, *item.keywords):
                _check_part(other, members)


def _check_part(part: ast.AST, members: frozenset[str]) -> None:
    """Check a function, or a statement outside of functions."""
    nodes = list(ast.walk(part))
    variables = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    variables |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    variables |= {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node is not part}  # of a fork
    if reserved := variables & (_REFUSED | _ROOTS | {"getattr", "hasattr"}):
        raise ValueError(f"calls a variable {min(reserved)}")
    names = _NAMES | variables | {"__annotations__"}
    followed: set[int] = set()  # nodes that the rule of another covers
    for node in nodes:
        if not isinstance(node, (*_STATEMENTS, *_EXPRESSIONS)):
            raise ValueError(_NO_TORCHSCRIPT)
        if isinstance(node, ast.Call):
            _check_getattr(node, members, followed)
        if id(node) in followed:
            continue
        if isinstance(node, ast.Attribute):
            _check_attribute(node, members, followed)
        elif isinstance(node, ast.Name) and (node.id not in names or node.id in (*_ROOTS, "getattr", "hasattr")):
            raise ValueError(f"calls {node.id}")


def _check_getattr(call: ast.Call, members: frozenset[str], followed: set[int]) -> None:
    """Check a call of getattr or hasattr, by which an attribute is read whose name is no word."""
    if not isinstance(call.func, ast.Name) or call.func.id not in ("getattr", "hasattr"):
        return
    name = call.args[1].value if len(call.args) == 2 and isinstance(call.args[1], ast.Constant) else None
    if not isinstance(name, str) or name not in members:
        raise ValueError(f"calls {name!r} by its name")
    followed.add(id(call.func))


def _check_attribute(node: ast.Attribute, members: frozenset[str], followed: set[int]) -> None:
    """Check what follows a dot: the operators of `torch` and `ops`, a class, a constant, or a declared member."""
    chain = _chain_of(node)
    root, *path = [part.id if isinstance(part, ast.Name) else part.attr for part in chain] or [""]
    if root == "torch":
        allowed = len(path) == 1 and path[0] in ALLOWED_ATEN
    elif root == "ops":
        allowed = len(path) == 2 and is_allowed(path[0], path[1])
    elif root == "__torch__":
        allowed = path[:2] != ["torch", "classes"] or path[2:3] in [[name] for name in _CLASSES]
    elif root == "CONSTANTS":
        allowed = len(path) == 1 and bool(_CONSTANT.fullmatch(path[0]))
    else:
        allowed, chain, path = node.attr in members, [], [node.attr]
    if not allowed:
        raise ValueError(f"calls {'::'.join(path[-2:])}")
    followed.update(map(id, chain))


def _chain_of(node: ast.expr) -> list[ast.Name | ast.Attribute]:
    """Return the parts of a name with dots; nothing where it begins with something else than a name."""
    chain: list[ast.Name | ast.Attribute] = []
    while isinstance(node, ast.Attribute):
        chain.insert(0, node)
        node = node.value
    return [node, *chain] if isinstance(node, ast.Name) else []
