"""The connection of this process to a Ray cluster: one for each address, with a node worker on every node.

Ray places a step: a task asks for cores, memory and GPUs, and where it lands it hands the step to the node's own
worker, an actor that the driver started there. The worker ends with the driver, and what it started ends with it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ....models.errors import BadRequest, StepFailed, ToolMissing, TransloadError
from ....models.library_messages import text_of
from ...workers.cluster_records import NodeFacts
from ...workers.engine import run_stopped
from ...workers.executor_choice import ADDRESS_VARIABLE, CLIENT_SCHEME
from .node_tasks import measure_on_this_node, perform_on_this_node
from .node_worker import NAMESPACE, NodeWorker, actor_name
from .step_order import StepDemand, StepOrder, StepReply, Unfit

_PROBE_S = 5.0  # for a connection to the port
_CONNECT_S = 15.0  # for Ray's own greeting behind it
_START_S = 90.0  # for a node worker, or a cluster: a cold disk reads libraries slowly
_NODES_S = 1.0  # that the list of nodes is good for
_LOOK_AGAIN_S = 5.0  # between two checks whether a node that can do the step is still alive
_MOST_SHOWN = 3  # nodes in the sentence that none of them can do a step
_ANSWER_S = 5.0  # of node workers that are asked whether they live
_MOST_LOST = 3  # nodes that may die over one step, before the step counts as what kills them
_THREADS = 256  # of a node worker: Ray's cores decide how many steps it has


class RayCluster:
    """A Ray cluster with our node workers. Thread-safe."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self.driver = secrets.token_hex(6)
        self._actors: dict[str, Any] = {}
        self._broken: dict[str, str] = {}  # nodes on which no node worker could start, with the reason
        self._lock = threading.Lock()
        self._perform = ray.remote(max_retries=0)(perform_on_this_node)
        self._measure = ray.remote(max_retries=0)(measure_on_this_node)
        self._actor = ray.remote(num_cpus=0, max_concurrency=_THREADS)(NodeWorker)
        self._alive: tuple[float, list[NodeFacts]] = (-_NODES_S, [])
        self._tasks: dict[Any, str] = {}  # Ray's references of the tasks under way, with the number of their run

    def nodes(self, *, now: bool = False) -> list[NodeFacts]:
        """Return the nodes that were alive a second ago, or are `now`: of many nodes the answer takes a while."""
        seen_s, alive = self._alive
        if now or time.monotonic() > seen_s + _NODES_S:
            alive = [
                NodeFacts(node["NodeID"], str(node["NodeManagerHostname"]), node["Resources"])
                for node in self._ray.nodes()
                if node["Alive"]
            ]
            self._alive = time.monotonic(), alive
        return alive

    @property
    def cores(self) -> int:
        """The cores of all nodes that are alive."""
        return max(1, int(sum(facts.resources.get("CPU", 0) for facts in self.nodes())))

    def start_workers(self) -> None:
        """Start a node worker on every node that has none. Raises ToolMissing where not one of them starts."""
        nodes = self.nodes(now=True)
        with self._lock:
            waiting = {}
            for facts in nodes:
                if facts.node not in self._actors and facts.node not in self._broken:
                    self._actors[facts.node] = self._new_actor(facts.node)
                    waiting[facts.node] = self._actors[facts.node].node.remote()
            for node, answer in waiting.items():
                try:
                    self._ray.get(answer, timeout=_START_S)
                except self._ray.exceptions.RayError as error:
                    self._actors.pop(node)
                    self._broken[node] = _reason(error)
        if all(facts.node in self._broken for facts in nodes):
            why = next(iter(self._broken.values()), "it has no nodes")
            fix = "install transload and its libraries on the nodes (docs/scale.md)"
            raise ToolMissing(f"no node of the cluster can run transload: {why}", fix=fix)

    def _replace_workers(self) -> None:
        """Start a node worker where there is none, or where it has died, as for want of memory."""
        with self._lock:
            refs = {actor.node.remote(): node for node, actor in self._actors.items()}
            done = self._ray.wait(list(refs), num_returns=len(refs), timeout=_ANSWER_S)[0] if refs else []
            for ref in done:
                try:
                    self._ray.get(ref)
                except self._ray.exceptions.RayError:  # where it lives after all, the same one is taken again
                    del self._actors[refs[ref]]
        self.start_workers()

    def perform(self, order: StepOrder, demand: StepDemand) -> StepReply:
        """Do a step on a node that can. Steps of a node that dies are done on another one.
        Raises ToolMissing where no node can do it, and StepFailed where one node after the other dies over it."""
        unfit: dict[str, Unfit] = {}
        lost = 0
        while True:
            reply: StepReply | None = self._ask(self._perform, order, demand, unfit, order.run.number)
            if reply is None:
                lost += 1
                if lost == _MOST_LOST:
                    fix = "look at the memory of the nodes, and at Ray's logs there; run again to go on from here"
                    raise StepFailed(f"{lost} nodes or their workers died over {order.action.name}", fix=fix)
                self._replace_workers()
            elif reply.is_new:
                self._replace_workers()
            elif reply.unfit:
                unfit[reply.node] = reply.unfit
            else:
                return reply

    def measure(self, work: Callable[[NodeFacts], Any], *, gpus: int = 0, gpu_kind: str | None = None) -> Any:
        """Call `work` on a node that does nothing else meanwhile: it asks for all of its cores.
        Raises StepFailed where nodes die over it, or its own TransloadError."""
        cores = max(int(facts.resources.get("CPU", 0)) for facts in self.nodes())
        demand = StepDemand(cores, 0, gpus, gpu_kind)
        for _ in range(_MOST_LOST):
            result = self._ask(self._measure, (self.driver, work), demand, {})
            if isinstance(result, TransloadError):
                raise result
            if result is not None:
                return result
            self._replace_workers()
        raise StepFailed(f"{_MOST_LOST} nodes died while they measured", fix="look at Ray's logs on the nodes")

    def stop(self, number: str) -> None:
        """End the steps of one run on all nodes. Does not wait for them."""
        for actor in list(self._actors.values()):
            with contextlib.suppress(Exception):
                actor.stop.remote(number)
        for task, run in list(self._tasks.items()):  # those that wait for a node, too
            if run == number:
                with contextlib.suppress(Exception):
                    self._ray.cancel(task, recursive=False)

    def _ask(self, function: Any, order: Any, demand: StepDemand, unfit: Mapping[str, Unfit], run: str = "") -> Any:
        """Return the answer of a task, which Ray places on a node that is not unfit; None where that node, or its
        process there, died. Raises ToolMissing where no node is left, and StepFailed where the run is stopped."""
        able = self._able(demand, unfit, order)
        options = _options(self._clamped(demand, able), {**self._broken, **unfit})
        nodes = {facts.node for facts in able}
        task = function.options(**options).remote(order)
        self._tasks[task] = run
        try:
            while not self._ray.wait([task], timeout=_LOOK_AGAIN_S)[0]:
                if not any(facts.node in nodes for facts in self.nodes()):
                    self._ray.cancel(task, force=True)
                    return None
            return self._answer(task)
        finally:
            del self._tasks[task]

    def _answer(self, task: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(task)
        except errors.RayTaskError as error:
            if not isinstance(error.cause, errors.RayError):
                raise  # a bug of ours on the node
            return None
        except errors.TaskCancelledError:
            raise run_stopped() from None
        except errors.RayError:
            return None

    def _able(self, demand: StepDemand, unfit: Mapping[str, Unfit], order: Any) -> list[NodeFacts]:
        """Return the nodes that may do the step. Raises ToolMissing where there is none."""
        nodes = [facts for facts in self.nodes() if facts.node not in self._broken]
        with_gpus = [facts for facts in nodes if _has_gpus(facts, demand)]
        if not with_gpus:
            kind = f" of kind {demand.gpu_kind}" if demand.gpu_kind else ""
            raise ToolMissing(
                f"no node of the cluster has {demand.gpus} GPUs{kind}", fix="use --device cpu, or add such a node"
            )
        able = [facts for facts in with_gpus if facts.node not in unfit]
        if not able:
            name = order.action.name if isinstance(order, StepOrder) else "bench"
            raise no_fit_node(name, {facts.label: unfit[facts.node] for facts in with_gpus})
        return able

    @staticmethod
    def _clamped(demand: StepDemand, able: list[NodeFacts]) -> StepDemand:
        """Return the demand with no more cores and memory than one of the nodes has."""
        cores = max(int(facts.resources.get("CPU", 0)) for facts in able)
        memory = max(int(facts.resources.get("memory", 0)) for facts in able)
        return StepDemand(
            min(demand.cores, cores), min(demand.memory_bytes, memory), demand.gpus, demand.gpu_kind
        )  # fmt: skip

    def _new_actor(self, node: str) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        place = NodeAffinitySchedulingStrategy(node, soft=False)
        name = f"{actor_name(self.driver, node)}"
        options = {"name": name, "namespace": NAMESPACE, "scheduling_strategy": place, "get_if_exists": True}
        return self._actor.options(**options).remote(node)


_clusters: dict[str | None, RayCluster] = {}
_connecting = threading.Lock()


def connect(address: str | None) -> RayCluster:
    """Connect to a cluster once per process: `ray://HOST:PORT`, or None for that of RAY_ADDRESS, of this machine, or a
    new one here. Raises ToolMissing without Ray, and BadRequest where the address does not answer."""
    with _connecting:
        if address not in _clusters:
            if _clusters:
                fix = "name one cluster for all that a process runs"
                raise BadRequest(f"this process is connected to another cluster than {address or 'ray'}", fix=fix)
            _clusters[address] = _connected(address)
        return _clusters[address]


def _connected(address: str | None) -> RayCluster:
    try:
        import ray
    except ImportError as error:
        fix = "install it with pip install 'transload[ray]', or use --executor local"
        raise ToolMissing("the executor ray needs ray, which is not installed", fix=fix) from error
    where = address or os.environ.get(ADDRESS_VARIABLE)
    if where and ":" in where:
        _check_answers(where)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with _quick(where or "ray"):
        _init(ray, address, _CONNECT_S if where else _START_S)  # else a cluster is started
    cluster = RayCluster(ray)
    cluster.start_workers()
    return cluster


def _check_answers(address: str) -> None:
    """Raise BadRequest where nothing listens at an address, HOST:PORT with or without ray://."""
    host, _, port = address.removeprefix(CLIENT_SCHEME).rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBE_S):
            return
    except (OSError, ValueError) as error:
        raise _no_answer(address, text_of(error) or type(error).__name__) from error


def _no_answer(address: str, why: str) -> BadRequest:
    fix = "check the address, and that the cluster runs (ray status), or use --executor local"
    return BadRequest(f"the Ray cluster at {address} does not answer: {why}", fix=fix)


@contextlib.contextmanager
def _quick(address: str) -> Iterator[None]:
    """Map Ray's errors of connecting to one sentence."""
    try:
        yield
    except TimeoutError as error:
        raise _no_answer(address, f"{text_of(error)}; is it a Ray cluster of this version?") from error
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise _no_answer(address, text_of(error).splitlines()[0][:200]) from error


def _init(ray: Any, address: str | None, seconds: float) -> None:
    """Call ray.init in a thread, as it may wait for ever. Raises TimeoutError, or what it raises."""
    errors: list[BaseException] = []
    is_over = threading.Event()
    silence_node_messages(ray)

    def init() -> None:
        try:
            ray.init(
                address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR,
                include_dashboard=None if address or os.environ.get(ADDRESS_VARIABLE) else False,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001  (handed to the caller's thread)
            errors.append(error)
        is_over.set()
        # A cluster that Ray starts here ends with the thread that started it (PR_SET_PDEATHSIG).
        threading.Event().wait()

    threading.Thread(target=init, name="ray-init", daemon=True).start()
    if not is_over.wait(seconds):
        raise TimeoutError(f"no greeting in {seconds:g} s")
    if errors:
        raise errors[0]


def silence_node_messages(ray: Any) -> None:
    """Keep Ray from printing what befalls nodes. Ray 2.60 writes 20 lines to stdout for a node that died, also with
    log_to_driver=False (listen_error_messages), in the midst of what `--json` prints. Has no effect where Ray calls
    the function otherwise: it is private."""
    worker = getattr(getattr(ray, "_private", None), "worker", None)
    if worker and hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda *_arguments, **_options: None


def no_fit_node(step: str, unfit: Mapping[str, Unfit]) -> ToolMissing:
    """Return the error where no node can do a step, with the fixes of its causes; `unfit`: by the names of nodes."""
    shown = dict(list(unfit.items())[:_MOST_SHOWN])
    reasons = "; ".join(f"{label}: {why.reason}" for label, why in shown.items())
    more = f"; and {len(unfit) - len(shown)} more" if len(unfit) > len(shown) else ""
    fixes = dict.fromkeys(why.fix or str(why.lack) for why in unfit.values())
    return ToolMissing(f"no node of the cluster can do {step}: {reasons}{more}", fix="; or ".join(fixes))


def _options(demand: StepDemand, without: Collection[str]) -> dict[str, Any]:
    options: dict[str, Any] = {"num_cpus": demand.cores, "num_gpus": demand.gpus, "memory": demand.memory_bytes or None}
    if demand.gpu_kind:
        options["accelerator_type"] = demand.gpu_kind
    if without:
        options["label_selector"] = {"ray.io/node-id": f"!in({','.join(without)})"}
    return options


def _has_gpus(facts: NodeFacts, demand: StepDemand) -> bool:
    kind = f"accelerator_type:{demand.gpu_kind}"
    return facts.resources.get("GPU", 0) >= demand.gpus and (demand.gpu_kind is None or kind in facts.resources)


def _reason(error: BaseException) -> str:
    """Return the last line of what Ray says, which names the cause."""
    lines = [line.strip() for line in text_of(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(error).__name__
