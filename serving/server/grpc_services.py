"""What the gRPC APIs of the server share: grpc.health.v1, reflection, parsing, and how long a client waits."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Executor
from functools import cache, partial, wraps
from queue import SimpleQueue
from typing import Any

from ..endpoint_security import EndpointSecurity
from ..wire.oip_messages import service_file
from ..wire.tfserving_messages import Message, decode_error, service_files
from .repository.served_version import Deadline
from .serving_error import invalid

_MOST_STREAMS = 8  # of reflection, each of which holds a thread for as long as its client likes
_UNKNOWN = "unknown"  # stands for all services that are not there


class HandlerThreads(Executor):
    """The threads of a grpc.Server, started as they are needed and kept. gRPC waits for the future of no call, and
    ThreadPoolExecutor's future, with its lock, takes as long as parsing a message."""

    def __init__(self, most: int) -> None:
        self._left = most  # that may still be started
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()  # None ends the threads
        self._idle: deque[None] = deque()  # an entry for each thread that waits for a call which is not on its way
        weakref.finalize(self, self._calls.put, None)

    def submit(self, call: Callable[..., object], /, *arguments: Any, **options: Any) -> Any:
        """Have a thread make a call. By one thread at a time, as gRPC does."""
        if self._idle:
            self._idle.pop()
        elif self._left:
            self._left -= 1
            threading.Thread(target=_make_calls, args=(self._calls, self._idle), name="grpc", daemon=True).start()
        self._calls.put(partial(call, *arguments, **options))


def _make_calls(calls: SimpleQueue[Callable[[], object] | None], idle: deque[None]) -> None:
    while call := calls.get():
        call()
        del call  # with the request that it holds
        idle.append(None)
    calls.put(None)  # for the next thread


class CheckedHandlers:
    """A grpc.Server as generated modules see it: it takes their handlers, and refuses bytes that are no message with
    INVALID_ARGUMENT. gRPC says INTERNAL."""

    def __init__(
        self, server: Any, most_streams: int = _MOST_STREAMS, aliases: Mapping[str, str] | None = None
    ) -> None:
        self._server, self._aliases = server, aliases or {}
        self._streams = threading.Semaphore(most_streams)

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """Take no handlers: all come by their names."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Add the handlers of a service by their names, and under its other name."""
        import grpc

        checked = {name: self._checked(handler) for name, handler in handlers.items()}
        for known in {service, self._aliases.get(service, service)}:
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(known, checked),))

    def _checked(self, handler: Any) -> Any:
        import grpc

        def read(data: bytes, context: Any) -> Any:
            try:
                return handler.request_deserializer(data)
            except decode_error() as error:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the request is no message of this method: {error}")

        def answer_stream(requests: Iterator[bytes], context: Any) -> Iterator[Any]:
            if not self._streams.acquire(blocking=False):
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams are open")
            try:
                yield from handler.stream_stream((read(data, context) for data in requests), context)
            finally:
                self._streams.release()

        options = {"request_deserializer": bytes, "response_serializer": handler.response_serializer}
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(answer_stream, **options)
        behaviour = handler.unary_unary or handler.unary_stream

        @wraps(behaviour)  # with the attributes by which gRPC runs a behaviour without a thread
        def answer(data: bytes, context: Any, *send: Any) -> Any:
            return behaviour(read(data, context), context, *send)

        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(answer, **options)
        return grpc.unary_unary_rpc_method_handler(answer, **options)


def add_health(server: Any, services: Collection[str]) -> Any:
    """Add grpc.health.v1.Health, which says SERVING of each service and of "", the whole server, until `tell_health`.
    Of itself it says SERVING as long as the process answers. Its `enter_graceful_shutdown` says NOT_SERVING of all, to
    those who watch, too."""
    from grpc_health.v1 import health, health_pb2, health_pb2_grpc

    known = {"", *services, health.SERVICE_NAME}

    class HealthPages(health.HealthServicer):  # type: ignore[misc]
        """Health of services that do not change."""

        def Watch(self, request: Any, context: Any, send_response_callback: Any = None) -> Any:  # noqa: N802
            """Watch a service. The base class keeps every name that was ever asked for."""
            wanted = request if request.service in known else health_pb2.HealthCheckRequest(service=_UNKNOWN)
            return super().Watch(wanted, context, send_response_callback)

    servicer = HealthPages()
    for service in known:
        servicer.set(service, health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, CheckedHandlers(server))
    return servicer


def tell_health(health: Any, services: Collection[str], *, is_ready: bool) -> None:
    """Have what `add_health` returned say of the whole server and of each service whether it is ready."""
    from grpc_health.v1.health_pb2 import HealthCheckResponse as Health

    for service in ("", *services):
        health.set(service, Health.SERVING if is_ready else Health.NOT_SERVING)


def add_reflection(server: Any, services: Collection[str]) -> None:
    """Add server reflection of `services`, of health and of itself, for clients without the .proto files. Version 1 has
    the messages of v1alpha (grpc/grpc: src/proto/grpc/reflection), and grpcio-reflection lacks it."""
    from grpc_health.v1 import health
    from grpc_reflection.v1alpha import reflection

    names = (*services, health.SERVICE_NAME, reflection.SERVICE_NAME, _as_v1(reflection.SERVICE_NAME))
    handlers = CheckedHandlers(server, aliases={reflection.SERVICE_NAME: _as_v1(reflection.SERVICE_NAME)})
    reflection.enable_server_reflection(names, handlers, _pool())


def _as_v1(text: str) -> str:
    return text.replace("v1alpha", "v1")


def deadline_of(context: Any) -> Deadline:
    """Return how long the client of a call waits."""
    remaining_s = context.time_remaining()
    return Deadline(math.inf if remaining_s is None else time.monotonic() + remaining_s, context.is_active)


def parse_message(read: Callable[[bytes], Message], data: bytes, name: str) -> Message:
    """Parse the bytes of a request. Raises ServingError INVALID_ARGUMENT."""
    try:
        return read(data)
    except decode_error() as error:
        raise invalid(f"the request is no {name}: {error}") from error


def token_check(security: EndpointSecurity) -> Any:
    """Return an interceptor that refuses requests without the token, UNAUTHENTICATED; health is asked without one."""
    import grpc
    from grpc_health.v1 import health

    def refuse(_request: bytes, context: Any) -> None:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "the request needs the server's bearer token")

    refusal = grpc.unary_unary_rpc_method_handler(refuse)

    class TokenCheck(grpc.ServerInterceptor):  # type: ignore[misc]
        """Looks at the metadata of each request."""

        def intercept_service(self, continuation: Any, details: Any) -> Any:
            """Pass a request on, or refuse it."""
            fields = dict(details.invocation_metadata)
            if details.method.startswith(f"/{health.SERVICE_NAME}/") or security.allows(
                str(fields.get("authorization", "")).encode()
            ):
                return continuation(details)
            return refusal

    return TokenCheck()


@cache
def _pool() -> Any:
    """Return the descriptors of all services. It is kept for good, as those of `stock` are."""
    from google.protobuf import descriptor_pb2, descriptor_pool, text_format
    from grpc_health.v1 import health_pb2
    from grpc_reflection.v1alpha import reflection_pb2

    pool = descriptor_pool.DescriptorPool()
    for data in (
        *service_files(),
        service_file(),
        health_pb2.DESCRIPTOR.serialized_pb,
        reflection_pb2.DESCRIPTOR.serialized_pb,
    ):
        pool.Add(descriptor_pb2.FileDescriptorProto.FromString(data))
    text = str(descriptor_pb2.FileDescriptorProto.FromString(reflection_pb2.DESCRIPTOR.serialized_pb))
    pool.Add(text_format.Parse(_as_v1(text), descriptor_pb2.FileDescriptorProto()))
    return pool
