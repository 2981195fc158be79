"""The user's samples at other sizes, in the calls that a step makes itself."""

from __future__ import annotations

import numpy as np

from transload.models.dataset import Dataset
from transload.models.probes.user_samples import draws_of
from transload.models.signature import TensorSpec

GRAPH = (
    TensorSpec("nodes", "float32", ("nodes", 6)),
    TensorSpec("edges", "int64", (2, "edges")),
    TensorSpec("kinds", "int64", ("nodes",)),
)
RNG = np.random.default_rng(0)
NODES = RNG.normal(size=(3, 9, 6)).astype(np.float32)
KINDS = np.broadcast_to(np.arange(9), (3, 9))


def drawn(edges: np.ndarray, nodes: int) -> dict[str, np.ndarray]:
    arrays = draws_of(Dataset({"nodes": NODES, "edges": edges, "kinds": KINDS}))(
        GRAPH, {"nodes": nodes, "edges": edges.shape[2]}, 0
    )
    assert arrays is not None
    return arrays


def edges_up_to(most: int) -> np.ndarray:
    edges = RNG.integers(0, most + 1, (3, 2, 13))
    edges[:, 0, 0] = most
    return edges


def test_edges_of_a_cropped_graph_point_to_its_nodes():
    edges = edges_up_to(8)
    arrays = drawn(edges, nodes=5)
    np.testing.assert_array_equal(arrays["edges"], edges[0] % 5)
    np.testing.assert_array_equal(arrays["nodes"], NODES[0, :5])


def test_edges_are_the_samples_own_where_they_point_to_nodes_that_are_there():
    edges = edges_up_to(8)
    for nodes in (9, 12):
        np.testing.assert_array_equal(drawn(edges, nodes=nodes)["edges"], edges[0])
    low = edges_up_to(3)
    np.testing.assert_array_equal(drawn(low, nodes=5)["edges"], low[0])


def test_integers_that_point_into_no_axis_stay_as_they_are():
    ids = edges_up_to(30)  # more than there are nodes: rows of a table
    np.testing.assert_array_equal(drawn(ids, nodes=5)["edges"], ids[0])
    arrays = drawn(edges_up_to(8), nodes=5)
    np.testing.assert_array_equal(arrays["kinds"], np.arange(5))


def test_integers_below_zero_stay_as_they_are():
    edges = edges_up_to(8)
    edges[:, 1, 0] = -1
    np.testing.assert_array_equal(drawn(edges, nodes=5)["edges"], edges[0])
