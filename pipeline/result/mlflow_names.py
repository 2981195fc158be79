"""What the user writes of an MLflow server: its address, and aliases of models on it."""

from __future__ import annotations

import re

from ...models.errors import BadRequest

URI_VARIABLE, EXPERIMENT_VARIABLE = "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"
ENVIRONMENT = "env"  # an address of this text is that of the environment
_ALIAS = re.compile(r"[A-Za-z0-9_-]{1,255}")
_LATEST = re.compile(r"(?i)latest|v\d+")  # MLflow keeps these aliases for itself
_SERVER = re.compile(r"https?://.+|databricks(-uc)?(://.*)?")
DATABASE = re.compile(r"(sqlite|postgresql|mysql|mssql)(\+\w+)?://.+")  # that mlflow itself opens, without a server


def check_address(text: str) -> str:
    """Return the text of an address, or `env`. Raises BadRequest where it is neither."""
    if text != ENVIRONMENT and not (_SERVER.fullmatch(text) or DATABASE.fullmatch(text)):
        raise BadRequest(
            f"{text!r} is no address of MLflow",
            fix=f"write it as in http://127.0.0.1:5000, or {ENVIRONMENT} for that in {URI_VARIABLE}",
        )
    return text


def check_alias(text: str) -> str:
    """Return the text of an alias of a registered model. Raises BadRequest where MLflow takes none of that text."""
    if not _ALIAS.fullmatch(text) or _LATEST.fullmatch(text):
        raise BadRequest(
            f"{text!r} cannot be the alias of a model", fix="use letters, digits, - and _, as in --promote champion"
        )
    return text
