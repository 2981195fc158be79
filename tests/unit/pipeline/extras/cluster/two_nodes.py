"""Ray's own test cluster: two nodes of one core on this machine, until stdin closes."""

from __future__ import annotations

import sys

from ray.cluster_utils import Cluster

NODE = {"num_cpus": 1, "memory": 4 << 30, "object_store_memory": 100 << 20}

if __name__ == "__main__":
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    cluster.add_node(**NODE)
    print(f"address={cluster.address}", flush=True)
    sys.stdin.read()
    cluster.shutdown()
