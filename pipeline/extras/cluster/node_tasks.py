"""The Ray tasks of a node. They hold the cores, memory and GPUs of a step while the node's worker does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....models.errors import TransloadError
from ...workers.cluster_records import NodeFacts
from .node_worker import NAMESPACE, actor_name
from .step_order import StepOrder, StepReply

_workers: dict[str, Any] = {}  # the node's workers by name, which this process has asked before


def perform_on_this_node(order: StepOrder) -> StepReply:
    """Hand a step to the worker of this node, and wait for it."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    worker = _worker(order.run.driver, node)
    if worker is None:
        return StepReply(node, is_new=True)
    gpus = [str(gpu) for gpu in ray.get_gpu_ids()]
    try:
        reply: StepReply = ray.get(worker.perform.remote(order, gpus))
    except ray.exceptions.RayActorError:
        _workers.clear()  # it has died: the next step asks for the one that was started in its place
        raise
    return reply


def measure_on_this_node(order: tuple[str, Callable[[NodeFacts], Any]]) -> Any:
    """Call a function in this process, on a node whose worker has let go of its frameworks.
    A TransloadError is returned, as Ray would wrap it."""
    import ray

    driver, work = order
    context = ray.get_runtime_context()
    node = context.get_node_id()
    worker = _worker(driver, node)
    if worker is not None:
        ray.get(worker.release.remote())
    facts = next(entry for entry in ray.nodes() if entry["NodeID"] == node)
    try:
        return work(NodeFacts(node, str(facts["NodeManagerHostname"]), facts["Resources"]))
    except TransloadError as error:
        return error


def _worker(driver: str, node: str) -> Any:
    """Return the worker of a driver on this node; None where it has not started one."""
    import ray

    name = actor_name(driver, node)
    try:
        if name not in _workers:
            _workers[name] = ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        return None
    return _workers[name]
