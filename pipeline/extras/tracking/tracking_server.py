"""The connection to an MLflow tracking server: its address, time limits, and errors as sentences.

mlflow is imported here and in the modules of this room that are handed its client, inside functions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ....models.errors import BadRequest, ToolMissing
from ....models.library_messages import one_line
from ...result.mlflow_names import DATABASE, ENVIRONMENT, EXPERIMENT_VARIABLE, URI_VARIABLE, check_address
from ...workers.extras import install_command

if TYPE_CHECKING:
    from mlflow import MlflowClient

_CREDENTIALS = re.compile(r"//[^/@\s]*@")
_CONNECT_S, _ANSWER_S = 5.0, 15.0
_REFUSED, _FULL = {401, 403}, 507
# mlflow asks again for some minutes by default. What the user has set stays.
_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # stdout is the result's
    "MLFLOW_DISABLE_TELEMETRY": "true",  # nothing but the named server is talked to
    "MLFLOW_LOGGING_LEVEL": "ERROR",
}


@dataclass(frozen=True)
class TrackingServer:
    """A server that has answered, and the client that talks to it."""

    address: str
    client: MlflowClient


def resolve_address(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the address that a text names. Raises BadRequest where it is that of an environment that has none."""
    if text != ENVIRONMENT:
        return check_address(text)
    if not environment.get(URI_VARIABLE):
        raise BadRequest(f"{URI_VARIABLE} is not set", fix="set it, or name the address: --mlflow http://HOST:PORT")
    return environment[URI_VARIABLE]


def experiment_of(environment: Mapping[str, str]) -> str | None:
    """Return the experiment that an environment names, as mlflow itself reads it."""
    return environment.get(EXPERIMENT_VARIABLE) or None


@contextmanager
def connect(text: str) -> Iterator[TrackingServer]:
    """Connect to the server at an address, or `env`; what goes wrong inside, too, becomes a sentence.
    Raises ToolMissing where mlflow is not installed, and BadRequest where the server does not answer or refuses."""
    address = resolve_address(text)
    require_mlflow()
    if DATABASE.fullmatch(address) and find_spec("sqlalchemy") is None:
        raise ToolMissing(
            f"MLflow opens {public_address(address)} with sqlalchemy, which is not installed",
            fix="install the whole of it (`pip install mlflow`), or name a server: --mlflow http://HOST:PORT",
        )
    with _settings(), _errors_as_sentences(public_address(address)):
        from mlflow import MlflowClient

        if address.startswith(("http://", "https://")):
            _check_answers(address)
        client = MlflowClient(tracking_uri=address)
        client.search_experiments(max_results=1)  # an expired token is refused here, before anything is made
        yield TrackingServer(public_address(address), client)


def require_mlflow() -> None:
    """Raise ToolMissing where mlflow is not installed. Imports nothing."""
    spec = find_spec("mlflow")
    if spec is None or spec.origin is None:  # without an origin it is a folder called mlflow
        raise ToolMissing("mlflow is not installed", fix=install_command(["mlflow"]))


def public_address(address: str) -> str:
    """Return an address without user and password."""
    return _CREDENTIALS.sub("//", address).rstrip("/")


def _check_answers(address: str) -> None:
    """Raise BadRequest where nothing answers at an address in some seconds: mlflow's own errors say it in a page."""
    import requests

    try:
        requests.get(f"{address.rstrip('/')}/health", timeout=(_CONNECT_S, _ANSWER_S), allow_redirects=False)
    except requests.Timeout as error:
        raise _silent(address, "it gave no answer in time") from error
    except requests.ConnectionError as error:
        raise _silent(address, "no connection could be made") from error
    except (requests.RequestException, ValueError) as error:
        raise _silent(address, _CREDENTIALS.sub("//", str(error))) from error


def _silent(address: str, why: str) -> BadRequest:
    fix = "start the server, or name another address with --mlflow"
    return BadRequest(f"MLflow at {public_address(address)} does not answer: {why}", fix=fix)


@contextmanager
def _settings() -> Iterator[None]:
    """Set mlflow's limits where the user has not set them, and take them back: this may be a user's own process."""
    added = {name: value for name, value in _SETTINGS.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def _errors_as_sentences(address: str) -> Iterator[None]:
    """Map what mlflow and requests raise to BadRequest."""
    from requests import RequestException

    try:
        yield
    except (_mlflow_error(), RequestException) as error:
        raise _sentence(address, error) from error
    except ModuleNotFoundError as error:
        fix = f"install it (`pip install {error.name}`), where its files lie is the server's choice"
        raise ToolMissing(f"MLflow at {address} needs {error.name}, which is not installed", fix=fix) from error


def _mlflow_error() -> type[Exception]:
    """Return the class of mlflow's errors."""
    from mlflow.exceptions import MlflowException

    error: type[Exception] = MlflowException
    return error


def _sentence(address: str, error: Exception) -> BadRequest:
    import requests

    if _is_due_to(error, requests.Timeout):
        return _silent(address, "it gave no answer in time")
    if _is_due_to(error, requests.ConnectionError):
        return _silent(address, "the connection is lost, or was never made")
    if _is_due_to(error, requests.exceptions.RetryError):
        return BadRequest(
            f"MLflow at {address} failed: asked again, it still answers with an error of its own (status 429 or 5xx)",
            fix="read the log of the server; the disk of its artifacts may be full",
        )
    status = _status_of(error)
    reason = _CREDENTIALS.sub("//", one_line(str(error)))[:200]
    if status in _REFUSED:
        return BadRequest(
            f"MLflow at {address} refuses the request (status {status}): {reason}",
            fix="renew MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
        )
    fix = "make room where the server keeps its artifacts" if status == _FULL else "read the log of the server"
    return BadRequest(f"MLflow at {address} failed: {reason}", fix=fix)


def _is_due_to(error: BaseException, kind: type[Exception]) -> bool:
    """Return whether an error of that kind stands behind an error, or is it."""
    behind: BaseException | None = error
    while behind is not None and not isinstance(behind, kind):
        behind = behind.__cause__ or behind.__context__
    return behind is not None


def _status_of(error: Exception) -> int | None:
    """Return the HTTP status of an error of mlflow or of requests; None where it has none."""
    response = getattr(error, "response", None)
    if response is not None:
        return int(response.status_code)
    status = getattr(error, "get_http_status_code", None)
    return int(status()) if status else None
