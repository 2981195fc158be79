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


REDUCTIONS = ["none", "add", "mul", "max", "min"]


def with_infinity(rng, shape):
    """The lowest float is above minus infinity: a maximum over no updates must not become it."""
    made = rng.standard_normal(shape).astype(np.float32)
    made[[0, 3]] = -np.inf  # where nothing comes to, and where something does
    return made


def scattered(op_type, reduction, s, case, dtype=np.float32):
    if op_type == "ScatterND":
        indices = np.array([[1], [1], [-1]] if reduction != "none" else [[1], [2], [0]], "i8")
    else:
        indices = np.array([[1], [1], [-1]] if reduction != "none" else [[1], [2], [0]], "i8").repeat(s.H, 1)
    values = (lambda rng, shape: rng.integers(-9, 9, shape).astype(dtype)) if dtype != np.float32 else with_infinity
    updates = (lambda rng, shape: rng.standard_normal(shape).astype(np.float32)) if dtype == np.float32 else values
    inputs = {"x": ((4, s.H), values), "u": ((3, s.H), updates)}
    return case(op_type, inputs, {"i": indices}, {"reduction": reduction}, order=["x", "i", "u"])


@pytest.mark.parametrize("op_type", ["ScatterND", "ScatterElements"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_scatters_reduce_by_every_mode_with_duplicates(bench, case, op_type, reduction):
    bench.agrees_both_ways(lambda s: scattered(op_type, reduction, s, case))
    bench.agrees_both_ways(lambda s: scattered(op_type, reduction, s, case, np.int32))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_scatters_reduce_in_tflite(bench, case, sizes, reduction):
    bench.agrees_in_tflite(scattered("ScatterND", reduction, sizes, case))


def repeated(rng, shape):
    return rng.integers(-2, 2, shape)


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool"])
def test_the_last_update_of_a_place_stays(bench, case, sizes, same_sizes, dtype):
    """As a token that comes twice is scored twice. What was there may be infinite."""
    infinite = (lambda rng, shape: with_infinity(rng, (9, *shape[1:]))[: shape[0]]) if dtype == "float32" else None
    values = infinite or indices(0, 2, dtype)
    for s in (sizes, same_sizes):
        inputs = {"x": (s("NCH"), values), "i": (s("NMH"), repeated), "u": (s("NMH"), indices(0, 9, dtype))}
        made = case("ScatterElements", inputs, attributes={"axis": 1})
        bench.agrees(made)
        bench.agrees_in_tflite(made)


@pytest.mark.parametrize("count", [0, 3])
def test_slices_are_set_in_tflite_however_many(bench, case, count):
    inputs = {"x": ((4, 5), with_infinity), "i": ((count, 1), repeated), "u": (count, 5)}
    bench.agrees_in_tflite(case("ScatterND", inputs))


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool", "uint64"])
def test_sequences_are_reversed_up_to_their_lengths(bench, case, sizes, same_sizes, dtype):
    for s in (sizes, same_sizes):
        inputs = {"x": (s("NHC"), indices(0, 2 if dtype == "bool" else 90, dtype)), "n": (s("N"), indices(0, s.H + 1))}
        made = case("ReverseSequence", inputs, attributes={"batch_axis": 0, "time_axis": 1})
        bench.agrees(made)
        bench.agrees_in_tflite(made)


def test_scatter_is_the_older_name(bench, case):
    made = lambda s: case(  # noqa: E731
        "Scatter", {"x": (4, s.H), "u": (2, s.H)}, {"i": np.array([[0], [3]], "i8").repeat(s.H, 1)},
        order=["x", "i", "u"], opset=10,
    )  # fmt: skip
    bench.agrees_both_ways(made)


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_a_one_hot_of_a_computed_depth(bench, case, dtype):
    depth = ((), lambda _rng, _shape: np.array(5, dtype))
    bench.agrees_both_ways(
        lambda s: case(
            "OneHot",
            {"i": (s("NH"), indices(-7, 7)), "d": depth},
            {"v": np.array([2, 3], "f4")},
            {"axis": 0},
            order=["i", "d", "v"],
        )
    )


@pytest.mark.parametrize("numbers", [(3, 9, 3), (10, 4, -2), (5, 3, 1), (3, 5, -1), (4, 4, 1), (0, 7, 2)])
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64", "float32"])
def test_a_range_of_computed_numbers_may_be_empty(bench, case, numbers, dtype):
    given = {
        name: ((), lambda _rng, _shape, number=number: np.array(number, dtype))
        for name, number in zip("abc", numbers, strict=True)
    }
    bench.agrees(case("Range", given))


@pytest.mark.parametrize("shift", [-2, 0, 1, 9])
@pytest.mark.parametrize("upper", [0, 1])
def test_a_triangle_of_a_computed_shift(bench, case, shift, upper):
    given = ((), lambda _rng, _shape: np.array(shift, "i8"))
    bench.agrees_both_ways(lambda s: case("Trilu", {"x": s("NHW"), "k": given}, attributes={"upper": upper}))
