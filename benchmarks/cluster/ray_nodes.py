"""Ray's own test cluster on this machine, ended with its stdin: N nodes of real processes. `kill` on stdin ends one."""

from __future__ import annotations

import os
import sys

from ray.cluster_utils import Cluster


def main(nodes: int, cores: int) -> None:
    """Start the nodes, print the address, and obey."""
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 leaves a node nothing of a machine that is shared
    facts = {"num_cpus": cores, "memory": 4 << 30, "object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**facts, "include_dashboard": False})
    others = [cluster.add_node(**facts) for _ in range(nodes - 1)]
    print(f"address={cluster.address}", flush=True)
    for line in sys.stdin:
        if line.strip() == "kill" and others:
            cluster.remove_node(others.pop(), allow_graceful=False)  # SIGKILL to its raylet
            print("killed", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
