"""Servers for the served runtimes: one process per artifact, started when first asked for, ended together."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from ...models.store import Stored
from ...serving.server.server_records import BinaryOptions, EmbeddedOptions
from ...serving.server.tfserving_launch import Binary, Embedded, Remote, ServerKind, find_tfserving
from ..context import Context
from ..workers.isolation import Worker

_BODY_BYTES = (1 << 31) - 1  # gRPC's largest limit: only this program asks this server, with any batch
EMBEDDED = "transload.serving.server.embedded:open_server"
BINARY = "transload.serving.server.tfserving_launch:open_binary"


class Servers:
    """Keeps one server per artifact and device. Thread-safe. Use it as a context manager."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._running: dict[tuple[str, str], Worker] = {}
        self._lock = threading.Lock()

    @cached_property
    def place(self) -> Remote | Binary | Embedded:
        """The TF Serving to use: looked for once, and only if something is served."""
        return find_tfserving(self._context.request.tfserving_url, dict(os.environ))

    @property
    def kind(self) -> ServerKind:
        """The kind of server, as the results name it."""
        return self.place.server

    @property
    def model(self) -> str:
        """The name under which every artifact is served."""
        return self._context.request.tfserving_model

    def addresses(self, artifact: Stored, device: str) -> dict[str, str]:
        """Return {"grpc": "127.0.0.1:p", "rest": "127.0.0.1:q"} of the server of `artifact`; start it if need be."""
        with self._lock:
            start = self.start_of(artifact.folder, device)
            if "addresses" in start:
                return dict(start["addresses"])
            worker = self._running.get((artifact.digest, device))
            if worker is None:
                worker = self._running[artifact.digest, device] = self._start(artifact.folder, device, start)
            addresses: dict[str, str] = worker.ask("addresses")
            return addresses

    def start_of(self, folder: Path, device: str) -> dict[str, Any]:
        """Return how the server of the artifact in `folder` is started: {entry, options} of a worker that holds it.
        Of one that runs already, return its {addresses}."""
        place = self.place
        if isinstance(place, Remote):
            return {"addresses": {"grpc": place.grpc, **({} if place.rest is None else {"rest": place.rest})}}
        threads = self._context.request.bench.threads
        model: dict[str, Any] = {"folder": str(folder), "name": self.model, "threads": threads}
        if isinstance(place, Binary):
            binary = BinaryOptions(**model, program=place.program, container=place.container)
            return {"entry": BINARY, "options": binary.to_json()}
        return {
            "entry": EMBEDDED,
            "options": EmbeddedOptions(**model, device=device, max_body_bytes=_BODY_BYTES).to_json(),
        }

    def _start(self, folder: Path, device: str, start: Mapping[str, Any]) -> Worker:
        context = self._context
        name = f"server.{folder.name[:8]}"
        limits = context.limits(device=device, loopback=True)
        worker = context.executor.open_worker(name, limits, context.folder / "tmp" / name)
        try:
            worker.open(start["entry"], start["options"])
        except BaseException:
            worker.close()
            raise
        return worker

    @property
    def pids(self) -> list[int]:
        """The processes of the workers that serve, and of all that they started."""
        return [pid for worker in self._running.values() for pid in worker.pids]

    @property
    def peak_rss_bytes(self) -> dict[str, int]:
        """The most memory of each server, by the digest of its artifact."""
        return {digest: worker.peak_rss_bytes for (digest, _), worker in self._running.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._running.values():
            worker.close()
