"""Resolve references to recipes, to code of the user's and to models of libraries. Imports no framework itself."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..code_digest import code_digest, module_file
from ..errors import BadRequest
from ..job import Job
from ..job_records import CodeOptions
from ..recipe import Recipe
from ..sources import LIBRARIES, CodeRef
from ..store import digest_of, digest_of_json
from ..untrusted_files import check_plain
from .library_models import library_factory
from .transformers_models import folder_files
from .user_code import load_object

RECIPES = ("digits-cnn", "digits-vit", "digits-gru", "digits-pair", "breast-cancer-mlp")  # each a module of zoo/


def list_recipes() -> tuple[Recipe, ...]:
    """List the recipes of the zoo. None of them imports its framework before a worker calls it."""
    return tuple(zoo_recipe(name) for name in RECIPES)


def zoo_recipe(name: str) -> Recipe:
    """Return the recipe of that name. Raises BadRequest with the names that are known."""
    recipe: Recipe = import_module(f"..zoo.{_zoo_module(name)}", __package__).RECIPE
    return recipe


def _zoo_module(name: str) -> str:
    if name not in RECIPES:
        raise BadRequest(f"the zoo has no recipe {name!r}", fix=f"use one of {', '.join(RECIPES)}")
    return name.replace("-", "_")


def load_recipe(ref: CodeRef) -> Recipe:
    """Load the recipe that `ref` names, in the zoo or in a file or module of the user's.
    Raises BadRequest where there is none, or where importing it raises."""
    loaded = load_named(ref)
    if not isinstance(loaded, Recipe):
        raise BadRequest(
            f"{ref.name} of {ref.place} is a {type(loaded).__name__}, not a Recipe",
            fix="make it a transload.models.recipe.Recipe; `transload new NAME` writes a file to start from",
        )
    if ref.settings:
        raise BadRequest(f"{ref.text} is a recipe, and takes no settings", fix="leave set out of the pipeline file")
    return loaded


def load_named(ref: CodeRef) -> Any:
    """Load what `ref` names: a Recipe, another object of the user's file or module, or a factory of a library.
    Raises BadRequest."""
    if ref.library:
        return library_factory(ref)
    name = _zoo_name(ref)
    return zoo_recipe(name) if name is not None else load_object(ref)


def _zoo_name(ref: CodeRef) -> str | None:
    return ref.text if ref.text in RECIPES else ref.recipe


def ref_digest(ref: CodeRef) -> str:
    """Return the digest of the code behind `ref`: its file and the imports of ours and of the user's.

    It imports nothing (models/code_digest.py), so that any process may ask.
    Raises BadRequest where there is no such file, module or recipe."""
    root = Path(ref.root) if ref.root else None
    name = _zoo_name(ref)
    if name is not None:
        return code_digest(Path(__file__).parents[1] / "zoo" / f"{_zoo_module(name)}.py")
    if ref.library:
        return _library_digest(ref)
    if ref.is_keras_file and ref.file:
        check_plain(ref.file)
        return digest_of(ref.file)
    return code_digest(ref.file or module_file(ref.place, root, ref.python.packages if ref.python else None), root)


def _library_digest(ref: CodeRef) -> str:
    """Digest our code that makes a library's model, the libraries' versions, and the files of a folder."""
    code = code_digest(Path(__file__).parent / "library_models.py")
    versions = [f"{name} {_version(name)}" for name in LIBRARIES[ref.library or ""]]
    files = folder_files(Path(ref.name)) if ref.library == "hf" else []
    for file in files:
        check_plain(file)
    return digest_of_json([code, *versions, *(f"{file.name} {digest_of(file)}" for file in files)])


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "absent"


def describe(job: Job) -> Mapping[str, Any]:
    """Return a recipe's description of itself: CodeOptions -> RecipeFacts."""
    return load_recipe(CodeOptions.from_json(job.options).code_ref).describe()
