"""A MODEL argument that names code: is it a recipe?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...models.job import Job
from ...models.job_records import CodeOptions
from ...models.loading.code_refs import load_named
from ...models.recipe import Recipe


def describe_code(job: Job) -> Mapping[str, Any]:
    """Ask the code that a MODEL argument names whether it is a recipe: CodeOptions -> CodeFacts.

    Raises BadRequest if there is no such code, or importing it raises.
    """
    model_code = load_named(CodeOptions.from_json(job.options).code_ref)
    return {"recipe": model_code.describe() if isinstance(model_code, Recipe) else None}
