"""The store of a case: a folder, or a bucket of moto's S3 server, which is a process of its own on 127.0.0.1."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

HERE = Path(__file__).resolve().parent
_BUCKET = "models"
_KINDS = ("actions", "refusals")  # results of steps, and the sentences with which steps refuse


class CaseStore(Protocol):
    """What a case reads of its store."""

    @property
    def place(self) -> str:
        """The text by which a command names the store."""

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment variables that every process needs to open the store."""

    def names(self) -> set[str]:
        """Return the results of steps that are there, as `actions/KEY.json`."""

    def read(self, name: str) -> dict[str, Any]:
        """Return a record."""


@dataclass(frozen=True)
class FolderStore:
    """A folder."""

    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.folder)

    def names(self) -> set[str]:
        """Return the results of steps that are there."""
        return {f"{kind}/{path.name}" for kind in _KINDS for path in (self.folder / kind).glob("*.json")}

    def read(self, name: str) -> dict[str, Any]:
        """Return a record."""
        record: dict[str, Any] = json.loads((self.folder / name).read_text())
        return record


class BucketStore:
    """A folder of a bucket. Read by a client that knows nothing of transload."""

    def __init__(self, port: int, name: str) -> None:
        import boto3

        self.variables: Mapping[str, str] = {**_credentials(), "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
        self._prefix = f"{name}/"
        self.place = f"s3://{_BUCKET}/{name}"
        self._client = boto3.client(
            "s3", endpoint_url=self.variables["AWS_ENDPOINT_URL"], region_name=self.variables["AWS_DEFAULT_REGION"],
            aws_access_key_id=self.variables["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.variables["AWS_SECRET_ACCESS_KEY"],
        )  # fmt: skip

    def names(self) -> set[str]:
        """Return the results of steps that are there."""
        pages = self._client.get_paginator("list_objects_v2")
        return {
            entry["Key"].removeprefix(self._prefix)
            for kind in _KINDS
            for page in pages.paginate(Bucket=_BUCKET, Prefix=f"{self._prefix}{kind}/")
            for entry in page.get("Contents", ())
        }

    def read(self, name: str) -> dict[str, Any]:
        """Return a record."""
        answer = self._client.get_object(Bucket=_BUCKET, Key=f"{self._prefix}{name}")
        record: dict[str, Any] = json.loads(answer["Body"].read())
        return record


@contextlib.contextmanager
def bucket_store(name: str, log: Path) -> Iterator[BucketStore]:
    """Start a server with an empty bucket, and end it with the block."""
    command = [sys.executable, "-P", str(HERE / "s3_server.py"), _BUCKET]
    environment = {**os.environ, **_credentials()}
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        ) as server,
    ):
        assert server.stdin
        assert server.stdout
        try:
            line = next((line for line in server.stdout if line.startswith("port=")), None)
            if line is None:
                raise RuntimeError(f"the S3 server did not start; {log} says why")
            yield BucketStore(int(line.partition("=")[2]), name)
        finally:
            server.stdin.close()
            server.wait(60)


def _credentials() -> dict[str, str]:
    """Return what any client must have; moto takes all."""
    return {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1"}
