"""`transload zoo`: the recipes that ship with transload. Reads them; imports no framework."""

from __future__ import annotations

from ...converters.steps import missing
from ...models.loading.code_refs import list_recipes
from ...models.recipe import Recipe
from .options import Json
from .render import print_json, print_lines, table


def command(json: Json = False) -> None:
    """List the recipes that ship with transload.

    Each is a net, its data, its training and its metric; 'transload new NAME' writes one of your own.
    """
    recipes = list_recipes()
    if json:
        print_json([{**recipe.describe(), "missing": missing(recipe.requires)} for recipe in recipes])
        return
    rows = [(f"zoo:{recipe.name}", _inputs(recipe), recipe.metric.name, _summary(recipe)) for recipe in recipes]
    print_lines(table([("recipe", "inputs", "metric", ""), *rows]))


def _inputs(recipe: Recipe) -> str:
    return " ".join(map(str, recipe.signature.inputs))


def _summary(recipe: Recipe) -> str:
    closed = missing(recipe.requires)
    return f"{recipe.summary} (closed here: {closed})" if closed else recipe.summary
