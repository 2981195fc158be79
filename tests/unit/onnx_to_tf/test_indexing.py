"""Elements by index; a negative one counts from the end."""

import numpy as np
import pytest


def indices(low, high, dtype="int64"):
    return lambda rng, shape: rng.integers(low, high, shape).astype(dtype)


CASES = {
    "Gather": lambda s, case: case(
        "Gather", {"x": s("NCH"), "i": (s("DW"), indices(-s.C, s.C))}, attributes={"axis": 1}
    ),
    "Gather, one": lambda s, case: case("Gather", {"x": s("NCH")}, {"i": np.array(-1, "i8")}, attributes={"axis": 1}),
    "Gather, embedding": lambda s, case: case(
        "Gather", {"i": (s("NH"), indices(-5, 5))}, {"w": np.arange(100, dtype="f4").reshape(5, 20)}, order=["w", "i"]
    ),
    "GatherElements": lambda s, case: case(
        "GatherElements", {"x": s("NCH"), "i": (s("NDH"), indices(-s.C, s.C))}, attributes={"axis": 1}
    ),
    "GatherND": lambda s, case: case("GatherND", {"x": s("NCH"), "i": ((*s("NW"), 2), indices(-1, 1))}),
    "GatherND in batches": lambda s, case: case(
        "GatherND", {"x": s("NCH"), "i": ((*s("NW"), 1), indices(-s.C, s.C))}, attributes={"batch_dims": 1}
    ),
    "OneHot": lambda s, case: case(
        "OneHot", {"i": (s("NH"), indices(-7, 7))}, {"d": np.array(5, "i8"), "v": np.array([2, 3], "f4")}, {"axis": 1}
    ),
    "TopK": lambda s, case: case("TopK", {"x": s("NCHW")}, {"k": np.array([2], "i8")}, outputs=2),
    "TopK, smallest": lambda s, case: case(
        "TopK", {"x": s("NCHW")}, {"k": np.array([2], "i8")}, {"axis": 1, "largest": 0}, outputs=2
    ),
    "ScatterND": lambda s, case: case(
        "ScatterND", {"x": s("NCH"), "u": (1, s.H)}, {"i": np.array([[0, -1]], "i8")}, order=["x", "i", "u"]
    ),
    "ScatterElements": lambda s, case: case(
        "ScatterElements", {"x": (4, s.H), "u": (2, s.H)}, {"i": np.array([[0], [-1]], "i8").repeat(s.H, 1)},
        {"axis": 0}, order=["x", "i", "u"],
    ),
    "NonZero": lambda s, case: case("NonZero", {"x": (s("NCH"), indices(0, 2, "float32"))}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_indexing(bench, case, name):
    bench.agrees_both_ways(lambda s: CASES[name](s, case))


@pytest.mark.parametrize("reduction", ["none", "add", "max", "min"])
def test_scatters_reduce_as_they_are_told(bench, case, reduction):
    repeated = np.array([[1], [1], [0]] if reduction != "none" else [[1], [2], [0]], "i8")
    bench.agrees_both_ways(
        lambda s: case(
            "ScatterND",
            {"x": (3, s.H), "u": (3, s.H)},
            {"i": repeated},
            {"reduction": reduction},
            order=["x", "i", "u"],
        )
    )


def test_a_reduction_that_tensorflow_has_not_is_refused(bench, case):
    from transload.models.errors import Refused

    made = case(
        "ScatterND",
        {"x": (3, 2), "u": (1, 2)},
        {"i": np.array([[1]], "i8")},
        {"reduction": "mul"},
        order=["x", "i", "u"],
    )
    with pytest.raises(Refused, match="its attribute reduction is 'mul'"):
        bench.lowered(made)
