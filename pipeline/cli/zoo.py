"""`transload zoo`: the recipes that ship with transload. Reads them; imports no framework."""

from __future__ import annotations

from ...converters.steps import missing
from ...models.loading.code_refs import list_recipes
from .options import Json
from .output.render import print_json, print_lines, table


def command(json: Json = False) -> None:
    """List the recipes that ship with transload.

    Each is a net, its data, its training and its metric; 'transload new NAME' writes one of your own.
    """
    recipes = list_recipes()
    if json:
        print_json([{**recipe.describe(), "missing": missing(recipe.requires)} for recipe in recipes])
        return
    rows = [("recipe", "inputs", "metric", "")]
    for recipe in recipes:
        closed = f" (closed here: {need})" if (need := missing(recipe.requires)) else ""
        inputs = " ".join(map(str, recipe.signature.inputs))
        rows.append((f"zoo:{recipe.name}", inputs, recipe.metric.name, f"{recipe.summary}{closed}"))
    print_lines(table(rows))
