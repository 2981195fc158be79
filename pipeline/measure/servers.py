"""Servers for the served runtimes: one process per artifact, started when first asked for, ended together."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from ...models.signature import Signature
from ...models.store import Stored
from ...serving.runtimes.runtime_table import Runtime
from ...serving.runtimes.tuning_space import Value
from ...serving.server.server_records import BinaryOptions, EmbeddedOptions, NoopOptions
from ...serving.server.tfserving_launch import Binary, Embedded, Remote, ServerKind, find_tfserving
from ..plan.context import Context
from ..plan.loaded_model import ModelDescription, ServedModel
from ..workers.engine import SCRATCH
from ..workers.isolation import Worker

_DEFAULTS: Mapping[str, Value] = {}
_BODY_BYTES = (1 << 31) - 1  # gRPC's largest limit: only this program asks this server, with any batch
EMBEDDED = "transload.serving.server.embedded:open_server"
NOOP = "transload.serving.server.noop_server:open_noop_server"
BINARY = "transload.serving.server.tfserving_launch:open_binary"


@dataclass(frozen=True)
class ServerUse:
    """The server that a runtime talks to about one model."""

    kind: ServerKind  # as the results name it
    model: str  # its name there
    start: Mapping[str, Any]  # see Servers.start_of
    addresses: Callable[[], dict[str, str]]  # by service, "grpc" and "rest"; started if need be


class Servers:
    """Keeps one server of each kind per artifact and device. Thread-safe. Use it as a context manager."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._running: dict[tuple[str, str, ServerKind, str], Worker] = {}
        self._noop: dict[str, Worker] = {}  # by the signature that they stand in for
        self._lock = threading.Lock()

    @cached_property
    def _tfserving(self) -> Remote | Binary | Embedded:
        """The TF Serving to use: looked for once, and only if something is served by it."""
        return find_tfserving(self._context.request.tfserving_url, dict(os.environ))

    def _place(self, runtime: Runtime, source: ModelDescription | None = None) -> Remote | Binary | Embedded:
        return self._tfserving if runtime.tfserving and source is None else Embedded()

    def is_remote(self, runtime: Runtime, served: ServedModel | None) -> bool:
        """Return whether `runtime` talks to a server that is not ours, whose failures are not the model's."""
        return served is not None or (runtime.served and isinstance(self._place(runtime), Remote))

    def use(
        self,
        artifact: Stored,
        device: str,
        runtime: Runtime,
        served: ServedModel | None,
        source: ModelDescription | None = None,
        *,
        settings: Mapping[str, Value] = _DEFAULTS,
    ) -> ServerUse | None:
        """Return the server that `runtime` talks to about `artifact`, or about a model that is `served` elsewhere; None
        for a runtime without a server. A `source` is no artifact: our own server holds it, in PyTorch, eager. Our own
        server opens the artifact with `settings`; no other takes any."""
        if not runtime.served:
            return None
        if served:
            services = served.services
            return ServerUse("remote", served.url.model, {"addresses": services}, lambda: services)
        return ServerUse(
            self._place(runtime, source).server,
            self._context.request.tfserving_model,
            self.start_of(artifact.folder, device, runtime, source, settings=settings),
            lambda: self.addresses(artifact, device, runtime, source, settings=settings),
        )

    def addresses(
        self,
        artifact: Stored,
        device: str,
        runtime: Runtime,
        source: ModelDescription | None = None,
        *,
        settings: Mapping[str, Value] = _DEFAULTS,
    ) -> dict[str, str]:
        """Return {"grpc": "127.0.0.1:p", "rest": "127.0.0.1:q"} of the server that `runtime` talks to about `artifact`;
        start it if need be."""
        with self._lock:
            start = self.start_of(artifact.folder, device, runtime, source, settings=settings)
            if "addresses" in start:
                return dict(start["addresses"])
            key = artifact.digest, device, self._place(runtime, source).server, json.dumps(dict(settings))
            worker = self._running.get(key)
            if worker is None:
                folder = artifact.folder
                worker = self._open_worker(f"server.{folder.name[:8]}", device, start, (str(folder),), source)
                self._running[key] = worker
            addresses: dict[str, str] = worker.ask("addresses")
            return addresses

    def start_of(
        self,
        folder: Path,
        device: str,
        runtime: Runtime,
        source: ModelDescription | None = None,
        *,
        settings: Mapping[str, Value] = _DEFAULTS,
    ) -> dict[str, Any]:
        """Return how the server of the artifact in `folder` is started for a runtime: {entry, options, walled} of a
        worker that holds it. Of one that runs already, return its {addresses}."""
        place = self._place(runtime, source)
        if isinstance(place, Remote):
            return {"addresses": {"grpc": place.grpc, **({} if place.rest is None else {"rest": place.rest})}}
        threads = self._context.request.bench.threads
        name = self._context.request.tfserving_model
        model: dict[str, Any] = {"folder": str(folder), "name": name, "threads": threads}
        if isinstance(place, Binary):
            binary = BinaryOptions(**model, program=place.program, container=place.container)
            # The walls let no program start, and this one was installed by the user.
            return {"entry": BINARY, "options": binary.to_json(), "walled": False}
        options = EmbeddedOptions(
            **model, device=device, max_body_bytes=_BODY_BYTES, runtime=None if source is None else "torch",
            settings=dict(settings),
        )  # fmt: skip
        return {"entry": EMBEDDED, "walled": True, "options": options.to_json()}

    def _open_worker(
        self,
        name: str,
        device: str,
        start: Mapping[str, Any],
        reads: tuple[str, ...] = (),
        source: ModelDescription | None = None,
    ) -> Worker:
        context = self._context
        limits = context.limits(device=device, loopback=True)
        limits = replace(source.within(limits) if source else limits, walled=limits.walled and start["walled"])
        reads, root = (*reads, *(source.reads if source else ())), source.root if source else None
        worker = context.executor.open_worker(name, limits, context.folder / SCRATCH / name, reads, root)
        try:
            worker.open(start["entry"], start["options"])
        except BaseException:
            worker.close()
            raise
        return worker

    def noop_addresses(self, signature: Signature) -> dict[str, str]:
        """Return the addresses of our own server over a model of this signature that computes nothing; start it if
        need be. The model's name there is that of the request."""
        document = signature.to_json()
        key = json.dumps(document)
        with self._lock:
            worker = self._noop.get(key)
            if worker is None:
                name = self._context.request.tfserving_model
                options = NoopOptions(name=name, signature=signature, max_body_bytes=_BODY_BYTES)
                worker = self._open_worker(
                    f"server.noop{len(self._noop)}",
                    "cpu",
                    {"entry": NOOP, "walled": True, "options": options.to_json()},
                )
                self._noop[key] = worker
            addresses: dict[str, str] = worker.ask("addresses")
            return addresses

    @property
    def pids(self) -> list[int]:
        """The processes of the workers that serve, and of all that they started."""
        return [pid for worker in (*self._running.values(), *self._noop.values()) for pid in worker.pids]

    def peak_rss_bytes(
        self,
        artifact: Stored,
        device: str,
        runtime: Runtime,
        source: ModelDescription | None = None,
        *,
        settings: Mapping[str, Value] = _DEFAULTS,
    ) -> int | None:
        """Return the peak memory of the server that `runtime` talks to about `artifact`; None where it is not ours."""
        key = artifact.digest, device, self._place(runtime, source).server, json.dumps(dict(settings))
        worker = self._running.get(key)
        return worker.peak_rss_bytes if worker else None

    def stop_all(self) -> None:
        """Stop the servers that run; one that is asked for again is started anew."""
        with self._lock:
            running = [*self._running.values(), *self._noop.values()]
            self._running, self._noop = {}, {}
        for worker in running:
            worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_all()
