"""`transload zoo`: the recipes that ship with transload. Reads them; imports no framework."""

from __future__ import annotations

from ...converters.steps import missing
from ...models.loading.code_refs import list_recipes
from ..options import shared_options as shared
from ..options.option import CommandOptions
from .output.render import print_json, print_lines, table


class ZooOptions(CommandOptions):
    """List the recipes that ship with transload.

    Each is a net, its data, its training and its metric; 'transload new NAME' writes one of your own.
    """

    json_: shared.Json = False


def command(options: ZooOptions) -> None:
    """Print the recipes."""
    recipes = list_recipes()
    if options.json_:
        print_json([{**recipe.describe(), "missing": missing(recipe.requires)} for recipe in recipes])
        return
    rows = [("recipe", "inputs", "metric", "")]
    for recipe in recipes:
        closed = f" (closed here: {need})" if (need := missing(recipe.requires)) else ""
        inputs = " ".join(map(str, recipe.signature.inputs))
        rows.append((f"zoo:{recipe.name}", inputs, recipe.metric.name, f"{recipe.summary}{closed}"))
    print_lines(table(rows))
