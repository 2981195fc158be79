"""What the gRPC APIs of the server share: grpc.health.v1, reflection, parsing, and how long a client waits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from functools import cache
from typing import Any

from ..endpoint_security import EndpointSecurity
from ..wire.oip_messages import service_file
from ..wire.tfserving_messages import Message, decode_error, service_files
from .repository.served_version import Patience
from .serving_error import invalid


def add_health(server: Any, services: Collection[str]) -> Any:
    """Add grpc.health.v1.Health, which says SERVING of each service and of "", the whole server.
    Its `enter_graceful_shutdown` says NOT_SERVING of all, to those who watch, too."""
    from grpc_health.v1 import health, health_pb2, health_pb2_grpc

    servicer = health.HealthServicer()
    for service in (*services, health.SERVICE_NAME):
        servicer.set(service, health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    return servicer


def add_reflection(server: Any, services: Collection[str]) -> None:
    """Add server reflection of `services`, of health and of itself, for clients without the .proto files."""
    from grpc_health.v1 import health
    from grpc_reflection.v1alpha import reflection

    names = (*services, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server, _pool())


def patience_of(context: Any) -> Patience:
    """Return how long the client of a call waits."""
    remaining_s = context.time_remaining()
    return Patience(math.inf if remaining_s is None else time.monotonic() + remaining_s, context.is_active)


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
    from google.protobuf import descriptor_pb2, descriptor_pool
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
    return pool
