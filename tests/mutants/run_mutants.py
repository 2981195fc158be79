"""Run the tests of a module against each mutant of it.

The tests are collected once. Each mutant is a fork of that process in which a function has the mutant's code; what
stands outside of functions was computed at the import, so its mutants are imported anew.
"""

from __future__ import annotations

import ast
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from inspect import unwrap
from types import CodeType, FunctionType, ModuleType
from typing import NoReturn

import pytest

from .operators import Mutant

_MOST_S = 300  # of the tests of one mutant, which may loop
_OPTIONS = (
    "-x", "-s", "--tb=no", "--assert=plain", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",  # of what a fork has loaded already
)  # fmt: skip


class Outcome(StrEnum):
    """What the tests made of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    LOOPED = "looped"  # it did not end in its time, which is noticed, too


class TestsFailed(Exception):
    """The tests of a module do not pass without a mutation, or were not found: they would kill every mutant."""


class _ForkPerMutant:
    """Runs the collected tests once as they are, then once in a fork for each mutant."""

    def __init__(self, module: str, mutants: Sequence[Mutant]) -> None:
        self._module = module
        self._mutants = mutants
        self.outcomes: dict[int, Outcome] = {}
        self.tests_passed = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests in forks; nothing else is left to run."""
        if not session.items or _in_fork(lambda: _run_items(session)) is not Outcome.SURVIVED:
            raise TestsFailed(self._module)
        self.tests_passed = True
        module = importlib.import_module(_module_name(self._module))
        for at, mutant in enumerate(self._mutants):
            if function := _live_function(module, mutant.function):
                self.outcomes[at] = _in_fork(lambda: _run_mutated(session, function, mutant))  # noqa: B023
        return True


def run_mutants(module: str, tests: Sequence[str], mutants: Sequence[Mutant]) -> Iterator[Outcome]:
    """Yield the outcome of each mutant of a module, whose path is relative to the repository's root.
    Raises TestsFailed where its tests do not pass as they are."""
    if not mutants:
        return
    forks = _ForkPerMutant(module, mutants)
    pytest.main([*tests, *_OPTIONS], plugins=[forks])
    if not forks.tests_passed:
        raise TestsFailed(module)
    for at, mutant in enumerate(mutants):
        yield forks.outcomes.get(at) or _in_fork(lambda: _import_mutated(module, mutant.tree, tests))  # noqa: B023


def _in_fork(work: Callable[[], int]) -> Outcome:
    """Do work in a fork, whose exit status it returns: 0 where all tests passed."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        _end_with(work)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        return Outcome.LOOPED
    return Outcome.KILLED if os.waitstatus_to_exitcode(status) else Outcome.SURVIVED


def _end_with(work: Callable[[], int]) -> NoReturn:
    code = 1
    try:
        signal.alarm(_MOST_S)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        code = work()
    finally:
        os._exit(code)


def _run_items(session: pytest.Session) -> int:
    """Run the collected tests until one fails; return 1 then, else 0."""
    for item, following in zip(session.items, [*session.items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return 1
    return 0


def _run_mutated(session: pytest.Session, function: FunctionType, mutant: Mutant) -> int:
    function.__code__ = next(
        code for code in _codes(compile(mutant.tree, "mutant", "exec")) if code.co_qualname == function.__qualname__
    )
    return _run_items(session)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _live_function(module: ModuleType, name: str) -> FunctionType | None:
    """Return the function of a module that a site lies in: "function", "Class.method", or what encloses these."""
    owner: object = module
    for part in name.split("."):
        member = vars(owner).get(part)
        member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if isinstance(function := unwrap(member) if callable(member) else member, FunctionType):
            return function
        if not isinstance(member, type):
            return None
        owner = member
    return None


class _MutatedLoader(SourceFileLoader):
    """Loads a module from a syntax tree in place of its file."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self._code: CodeType = compile(tree, path, "exec")

    def get_code(self, fullname: str) -> CodeType:
        return self._code


class _MutatedFinder(MetaPathFinder):
    """Finds one module, with a loader of its own."""

    def __init__(self, loader: _MutatedLoader) -> None:
        self._loader = loader

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._loader.name or not (spec := PathFinder.find_spec(fullname, path, target)):
            return None
        spec.loader = self._loader
        return spec


def _import_mutated(module: str, tree: ast.Module, tests: Sequence[str]) -> int:
    """Run the tests where the mutated module, and all that may have taken names of it, is imported anew."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("transload", "tests")]:
        del sys.modules[name]
    name = _module_name(module)
    sys.meta_path.insert(0, _MutatedFinder(_MutatedLoader(name, os.path.abspath(module), tree)))  # noqa: PTH100
    return int(pytest.main([*tests, *_OPTIONS]))


def _module_name(path: str) -> str:
    return "transload." + path.removesuffix(".py").replace("/", ".")
