"""A pickle, read by a machine that builds plain containers, tensors that are not loaded yet, and stubs.

Python's own unpickler imports and calls what a pickle names. This one has a table of known names (tensors, arrays,
plain containers), for which it has functions of its own; every other name becomes a stub. It does not recurse, and its
work is limited.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any

from .stored_tensors import StoredArray
from .stubs import PickleRefused, Stub, StubClass, check_key

MOST_OPCODES = 5_000_000  # 320 MB of empty containers at most; a state dict of 100,000 tensors has 3 million
_PUSHED = frozenset((
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
    "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES",
    "BINBYTES8", "BYTEARRAY8",
))  # fmt: skip
_SKIPPED = frozenset(("PROTO", "FRAME"))
_CONSTANTS: Mapping[str, object] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_EMPTY: Mapping[str, Callable[[], object]] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set}
_PARTS = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}

Builder = Callable[..., object]


class PickleMachine:
    """Reads one pickle. `builders` are functions for known names, `load_storage` resolves persistent ids."""

    def __init__(self, builders: Mapping[str, Builder], load_storage: Callable[[object], object]) -> None:
        self._builders, self._load_storage = builders, load_storage
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, object] = {}

    def read(self, file: IO[bytes]) -> object:
        """Read the pickle at the file's position, and leave the position behind it.
        Raises PickleRefused; errors of broken pickles are LookupError, TypeError, ValueError and the like."""
        stack = self._stack
        for count, (opcode, argument, _) in enumerate(pickletools.genops(file)):
            name = opcode.name
            if count >= MOST_OPCODES:
                raise PickleRefused(f"its pickle has more than {MOST_OPCODES:,} operations")
            if name in _PUSHED:
                stack.append(argument)
            elif name in _CONSTANTS:
                stack.append(_CONSTANTS[name])
            elif name in _EMPTY:
                stack.append(_EMPTY[name]())
            elif name == "STOP":
                break
            elif name not in _SKIPPED:
                self._step(name, argument)
        return stack.pop()

    def _step(self, name: str, argument: Any) -> None:
        if name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self._memo[argument] = self._stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            self._stack.append(self._memo[argument])
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = self._stack[-1]
        elif name == "MARK":
            self._marks.append(len(self._stack))
        elif name in _PARTS:
            self._stack[-_PARTS[name] :] = [tuple(self._stack[-_PARTS[name] :])]
        elif step := _STEPS.get(name):
            step(self, argument)
        else:
            raise PickleRefused(f"its pickle has an operation that is not read ({name})")

    def _since_mark(self) -> list[Any]:
        start = self._marks.pop()
        values = self._stack[start:]
        del self._stack[start:]
        return values

    def _pop(self, _: object) -> None:
        if self._marks and self._marks[-1] == len(self._stack):
            self._marks.pop()
        else:
            self._stack.pop()

    def _dup(self, _: object) -> None:
        self._stack.append(self._stack[-1])

    def _pop_mark(self, _: object) -> None:
        self._since_mark()

    def _tuple(self, _: object) -> None:
        self._stack.append(tuple(self._since_mark()))

    def _list(self, _: object) -> None:
        self._stack.append(self._since_mark())

    def _dict(self, _: object) -> None:
        self._stack.append(to_dict(_pairs(self._since_mark())))

    def _frozenset(self, _: object) -> None:
        self._stack.append(to_set(self._since_mark()))

    def _append(self, _: object) -> None:
        value = self._stack.pop()
        _extend(self._stack[-1], [value])

    def _appends(self, _: object) -> None:
        values = self._since_mark()
        _extend(self._stack[-1], values)

    def _set_item(self, _: object) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        _update(self._stack[-1], [(key, value)])

    def _set_items(self, _: object) -> None:
        values = self._since_mark()
        _update(self._stack[-1], _pairs(values))

    def _global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._stack.append(StubClass(module, name))

    def _stack_global(self, _: object) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if not (isinstance(name, str) and isinstance(module, str)):
            raise PickleRefused("its pickle names a class by something else than text")
        self._stack.append(StubClass(module, name))

    def _reduce(self, _: object) -> None:
        args, function = self._stack.pop(), self._stack.pop()
        self._stack.append(self._call(function, _as_tuple(args)))

    def _new_object(self, _: object) -> None:
        args, cls = self._stack.pop(), self._stack.pop()
        self._stack.append(self._call(cls, _as_tuple(args)))

    def _new_object_with_keywords(self, _: object) -> None:
        keywords, args, cls = self._stack.pop(), self._stack.pop(), self._stack.pop()
        stub = _stub(cls, _as_tuple(args))
        stub.keywords = keywords if isinstance(keywords, dict) else {}
        self._stack.append(stub)

    def _object(self, _: object) -> None:
        cls, *args = self._since_mark()
        self._stack.append(self._call(cls, tuple(args)))

    def _instance(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._stack.append(self._call(StubClass(module, name), tuple(self._since_mark())))

    def _build(self, _: object) -> None:
        state, target = self._stack.pop(), self._stack[-1]
        if isinstance(target, Stub):
            target.state = state
        elif isinstance(target, StoredArray):
            target.fill(state)
        # Attributes of plain containers and of tensors (`_metadata` of a state dict) are no weights.

    def _persistent(self, argument: object) -> None:
        self._stack.append(self._load_storage(argument))

    def _persistent_on_stack(self, _: object) -> None:
        self._stack.append(self._load_storage(self._stack.pop()))

    def _call(self, function: object, args: tuple[object, ...]) -> object:
        """Build what a known name stands for; a stub of any other one."""
        builder = self._builders.get(function.text) if isinstance(function, StubClass) else None
        return _stub(function, args) if builder is None else builder(*args)


_STEPS: Mapping[str, Callable[[PickleMachine, Any], None]] = {
    "POP": PickleMachine._pop, "POP_MARK": PickleMachine._pop_mark, "DUP": PickleMachine._dup,
    "TUPLE": PickleMachine._tuple, "LIST": PickleMachine._list, "DICT": PickleMachine._dict,
    "FROZENSET": PickleMachine._frozenset, "APPEND": PickleMachine._append, "APPENDS": PickleMachine._appends,
    "ADDITEMS": PickleMachine._appends, "SETITEM": PickleMachine._set_item, "SETITEMS": PickleMachine._set_items,
    "GLOBAL": PickleMachine._global, "STACK_GLOBAL": PickleMachine._stack_global, "REDUCE": PickleMachine._reduce,
    "NEWOBJ": PickleMachine._new_object, "NEWOBJ_EX": PickleMachine._new_object_with_keywords,
    "OBJ": PickleMachine._object, "INST": PickleMachine._instance, "BUILD": PickleMachine._build,
    "PERSID": PickleMachine._persistent, "BINPERSID": PickleMachine._persistent_on_stack,
}  # fmt: skip


def to_dict(pairs: Iterable[tuple[object, object]]) -> dict[Any, object]:
    """Make a dict of a pickle's pairs. Raises PickleRefused where a key is none."""
    return {check_key(key): value for key, value in pairs}


def to_set(values: Iterable[object]) -> set[Any]:
    """Make a set of a pickle's values. Raises PickleRefused where one cannot be an element."""
    return {check_key(value) for value in values}


def _pairs(values: list[Any]) -> Iterable[tuple[object, object]]:
    return zip(values[::2], values[1::2], strict=True)


def _extend(target: object, values: list[Any]) -> None:
    if isinstance(target, list):
        target.extend(values)
    elif isinstance(target, set):
        target.update(to_set(values))
    elif isinstance(target, Stub):
        target.elements.extend(values)
    else:
        raise PickleRefused("its pickle adds elements to what has none")


def _update(target: object, pairs: Iterable[tuple[object, object]]) -> None:
    if not isinstance(target, dict | Stub):
        raise PickleRefused("its pickle sets items of what has none")
    (target if isinstance(target, dict) else target.entries).update(to_dict(pairs))


def _as_tuple(args: object) -> tuple[object, ...]:
    if not isinstance(args, tuple):
        raise PickleRefused("its pickle calls something with other than arguments")
    return args


def _stub(function: object, args: tuple[object, ...]) -> Stub:
    if isinstance(function, StubClass):
        return Stub(function, args)
    return Stub(function.cls if isinstance(function, Stub) else StubClass("", type(function).__name__), args)
