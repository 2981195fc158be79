"""What is read off a model that is given: its signature, and samples to ask it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from transload.converters.onnx_graph.topological_order import sort_nodes
from transload.converters.readers.artifact_import import check_artifact, import_artifact
from transload.converters.readers.file_content import format_of_content
from transload.converters.readers.onnx.onnx_file import check_external, parse_onnx
from transload.converters.readers.onnx.onnx_reader import import_onnx
from transload.converters.readers.pt2.pt2_reader import import_pt2
from transload.converters.readers.requested_inputs import apply_request
from transload.models.artifact import read_artifact
from transload.models.data_sources.take_samples import take_samples
from transload.models.dataset import read_dataset
from transload.models.errors import BadRequest, ToolMissing
from transload.models.exported_program import operators, recorded_signature, save_program
from transload.models.formats import Format
from transload.models.job import Job
from transload.models.probes.random_inputs import sample_tensors
from transload.models.probes.samples import make_samples
from transload.models.signature import Bounds, Signature, TensorSpec, bounds_of, parse_input
from transload.models.store import digest_of


def value(name: str, shape: list[Any] | None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto], **more: Any) -> onnx.ModelProto:
    """y = x @ w, and whatever is declared of it."""
    weights = numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", inputs, outputs, [weights], **more)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def taken(tmp_path: Path, made: onnx.ModelProto, **options: Any) -> dict[str, Any]:
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString())
    (tmp_path / "out").mkdir()
    return dict(import_onnx(Job({}, tmp_path / "out", {"path": str(path), "sha256": digest_of(path), **options})))


def shapes(tmp_path: Path) -> list[tuple[int | str, ...]]:
    signature = read_artifact(tmp_path / "out").signature
    return [spec.shape for spec in (*signature.inputs, *signature.outputs)]


def test_names_of_axes_are_kept_and_the_bytes_too(tmp_path: Path) -> None:
    facts = taken(tmp_path, model([value("x", ["N", 4])], [value("y", ["N", 3])]))
    assert shapes(tmp_path) == [("N", 4), ("N", 3)]
    assert (tmp_path / "out" / "model.onnx").read_bytes() == (tmp_path / "m.onnx").read_bytes()
    assert facts["external"] == {}


def test_axes_without_a_name_get_one_and_the_file_says_so(tmp_path: Path) -> None:
    inner = [value("y", ["unk", None, 3])]
    taken(tmp_path, model([value("x", [None, None, 4])], [value("y", [None, None, 3])], value_info=inner))
    assert shapes(tmp_path) == [("batch", "x_1", 4), ("batch", "x_1", 3)], "two calls tell which axes are the input's"
    graph = onnx.load(tmp_path / "out" / "model.onnx").graph
    declared = [side[0].type.tensor_type.shape.dim for side in (graph.input, graph.output)]
    names = [[dim.dim_param or dim.dim_value for dim in dims] for dims in declared]
    assert names == [["batch", "x_1", 4], ["batch", "x_1", 3]]
    assert not graph.value_info, "it would speak of axes by their former names"


@pytest.mark.parametrize("word", ["?", "None", "-1"])
def test_a_word_for_any_size_is_no_name(word: str, tmp_path: Path) -> None:
    """One name is one size, and some tools write the same for every axis."""
    taken(tmp_path, model([value("x", [word, word, 4])], [value("y", [word, word, 3])]))
    assert shapes(tmp_path) == [("batch", "x_1", 4), ("batch", "x_1", 3)]


def test_an_output_without_a_shape_is_inferred(tmp_path: Path) -> None:
    taken(tmp_path, model([value("x", ["N", 4])], [value("y", None)]))
    assert shapes(tmp_path) == [("N", 4), ("N", 3)]


@pytest.mark.parametrize(("ir_version", "opset"), [(8, 17), (3, 8)])
def test_weights_that_are_listed_as_inputs_are_none(ir_version: int, opset: int, tmp_path: Path) -> None:
    """Before version 4 of the format they have to be."""
    made = model([value("x", ["N", 4]), value("w", [4, 3])], [value("y", ["N", 3])])
    made.ir_version, made.opset_import[0].version = ir_version, opset
    taken(tmp_path, made)
    assert [spec.name for spec in read_artifact(tmp_path / "out").signature.inputs] == ["x"]
    assert [each.name for each in onnx.load(tmp_path / "out" / "model.onnx").graph.input] == ["x"]


def test_what_outputs_lack_is_told_of_them(tmp_path: Path) -> None:
    y = value("y", ["N", 3])
    with pytest.raises(BadRequest, match=r"m.onnx lists its output y twice\n  fix: list each output once"):
        taken(tmp_path, model([value("x", ["N", 4])], [y, y]))
    (tmp_path / "out").rmdir()
    made = model([value("x", ["N", 4]), value("s", ["r"], TensorProto.INT64)], [value("z", None)])
    made.graph.node.append(helper.make_node("Reshape", ["y", "s"], ["z"]))
    with pytest.raises(BadRequest, match=r"says no shape of z\n  fix: export it with the shapes of its outputs"):
        taken(tmp_path, made)


def two_inputs(operator: str, first: str | None) -> onnx.ModelProto:
    """The sums of the rows of x and of e, in one operator."""
    nodes = [helper.make_node("ReduceSum", [each, "w"], [f"{each}s"], keepdims=1) for each in ("x", "e")]
    attributes: dict[str, Any] = {"axis": 0} if operator == "Concat" else {}
    nodes.append(helper.make_node(operator, ["xs", "es"], ["y"], **attributes))
    inputs = [value("x", [first, 4]), value("e", [first, 2])]
    axes = [numpy_helper.from_array(np.array([1]), "w")]
    graph = helper.make_graph(nodes, "g", inputs, [value("y", [None, 1])], axes)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("operator", "first"), [("Add", None), ("Concat", "N")])
def test_inputs_are_of_one_batch_where_the_model_or_the_file_wants_it(
    operator: str, first: str | None, tmp_path: Path
) -> None:
    taken(tmp_path, two_inputs(operator, first))
    assert shapes(tmp_path)[:2] == [(first or "batch", 4), (first or "batch", 2)]


def test_they_are_asked_for_where_other_axes_are_of_one_size(tmp_path: Path) -> None:
    inputs = [value(each, [None, None]) for each in ("x", "e")]
    node = helper.make_node("Concat", ["x", "e"], ["y"], axis=0)
    made = helper.make_model(helper.make_graph([node], "g", inputs, [value("y", [None, None])]), ir_version=8,
                             opset_imports=[helper.make_opsetid("", 17)])  # fmt: skip
    with pytest.raises(BadRequest, match="whether they are of one batch"):
        taken(tmp_path, made)


def test_inputs_that_may_be_of_two_batches_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as caught:
        taken(tmp_path, two_inputs("Concat", None))
    assert caught.value.what.endswith(
        "m.onnx gives the first axes of its inputs no names, and answers to 6 samples in e and 4 in the others: "
        "whether they are of one batch it does not say"
    )
    assert caught.value.fix == (
        "say it: --input x=float32[batch,4] --input e=float32[batch,2] where they are, "
        "--input x=float32[x_0,4] --input e=float32[e_0,2] where not"
    )
    for at, (one, other) in enumerate([("batch", "batch"), ("x_0", "e_0"), ("n", "batch")]):
        folder = tmp_path / str(at)
        folder.mkdir()
        inputs = [TensorSpec("x", "float32", (one, 4)), TensorSpec("e", "float32", (other, 2))]
        taken(folder, two_inputs("Concat", None), inputs=[spec.to_json() for spec in inputs])
        assert shapes(folder) == [(one, 4), (other, 2), ("y_0", 1)]


def test_an_input_without_a_shape_is_asked_for_and_taken(tmp_path: Path) -> None:
    made = model([value("x", None)], [value("y", ["N", 3])])
    with pytest.raises(BadRequest, match=r"says no shape of x\n  fix: name it, as in --input x=float32"):
        taken(tmp_path, made)
    (tmp_path / "out").rmdir()
    taken(tmp_path, made, inputs=[TensorSpec("x", "float32", ("N", 4)).to_json()])
    assert shapes(tmp_path)[0] == ("N", 4)


@pytest.mark.parametrize(
    ("content", "mend"),
    [
        (b"\x1c\0\0\0TFL3" + b"\0" * 20, "call it m.tflite"),
        (b"\x08\x01\x12\xc5\x6a" + b"\0" * 20, "name the folder that it lies in, with its variables"),
        (("metadata.json", "config.json", "model.weights.h5"), "call it m.keras"),
        (("m/constants.pkl", "m/code/x.py"), "call it m.pt"),
        (("m/models/model.json",), "call it m.pt2"),
    ],
)
def test_a_file_of_another_kind_than_its_name_says_is_told_by_its_content(
    content: bytes | tuple[str, ...], mend: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.onnx"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name in content:
                archive.writestr(name, "{}")
    with pytest.raises(BadRequest, match=r"is, by its content, of the kind [\w-]+ and not onnx") as caught:
        import_onnx(Job({}, tmp_path, {"path": str(path), "sha256": digest_of(path)}))
    assert caught.value.fix == mend


def out_of_order(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    made = model([value("x", ["N", 4])], [value("y", ["N", 3])])
    made.graph.node.extend(nodes)
    return made


def test_nodes_are_put_in_order_as_onnx_runtime_does_not_need_them_and_onnx_does(tmp_path: Path) -> None:
    made = out_of_order(helper.make_node("Neg", ["x"], ["cast_of_x"]))
    made.graph.node[0].input[0] = "cast_of_x"
    taken(tmp_path, made)
    written = onnx.load(tmp_path / "out" / "model.onnx")
    assert [node.op_type for node in written.graph.node] == ["Neg", "MatMul"]


def test_a_node_that_only_a_body_reads_comes_before_it(tmp_path: Path) -> None:
    body = helper.make_graph([helper.make_node("Abs", ["late"], ["kept"])], "b", [], [value("kept", None)])
    some = numpy_helper.from_array(np.array(True), "some")
    nodes = [
        helper.make_node("If", ["some"], ["chosen"], then_branch=body, else_branch=body),
        helper.make_node("Neg", ["x"], ["late"]),
        helper.make_node("MatMul", ["chosen", "w"], ["y"]),
    ]
    made = out_of_order(*nodes)
    del made.graph.node[0]
    made.graph.initializer.append(some)
    assert sort_nodes(made.graph)
    assert [node.op_type for node in made.graph.node] == ["Neg", "If", "MatMul"]
    assert not sort_nodes(made.graph)


def test_nodes_that_wait_for_each_other_are_named(tmp_path: Path) -> None:
    made = out_of_order(helper.make_node("Neg", ["y"], ["x_of_y"], name="back"))
    made.graph.node[0].name, made.graph.node[0].input[0] = "forth", "x_of_y"
    with pytest.raises(BadRequest, match=r"wait for each other: (back, forth|forth, back)"):
        taken(tmp_path, made)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and no more", bytes(range(32))])
def test_a_content_that_tells_nothing_is_left_to_who_reads_it(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(content)
    assert format_of_content(tmp_path / "m") is None


def test_a_whole_onnx_file_is_told_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(model([value("x", ["N", 4])], [value("y", ["N", 3])]).SerializeToString())
    assert format_of_content(tmp_path / "m") is Format.ONNX


def test_a_string_input_is_refused(tmp_path: Path) -> None:
    made = model([value("x", ["N", 4]), value("s", ["N"], TensorProto.STRING)], [value("y", ["N", 3])])
    with pytest.raises(BadRequest, match="export numbers or booleans"):
        taken(tmp_path, made)


SIGNATURE = Signature(
    (TensorSpec("a", "float32", ("batch", "a_1", 3)), TensorSpec("b", "int64", ("batch", "b_1"))),
    (TensorSpec("y", "float32", ("batch", "a_1")),),
)


def test_asked_names_and_sizes_go_through_inputs_and_outputs() -> None:
    fitted = apply_request(SIGNATURE, [parse_input("b=int64[n,7]"), parse_input("a=float32[n,time,3]")])
    assert [spec.shape for spec in fitted.inputs] == [("n", "time", 3), ("n", 7)]
    assert fitted.outputs[0].shape == ("n", "time")


@pytest.mark.parametrize(
    "asked",
    [
        ["a=float32[n,t,3]"],
        ["a=float32[n,t,3]", "c=int64[n,k]"],
        ["a=float64[n,t,3]", "b=int64[n,k]"],
        ["a=float32[n,t,4]", "b=int64[n,k]"],
        ["a=float32[n,t]", "b=int64[n,k]"],
        ["a=float32[n,t,3]", "b=int64[m,k]"],
    ],
)
def test_what_does_not_fit_the_model_is_refused(asked: list[str]) -> None:
    with pytest.raises(BadRequest, match="--input"):
        apply_request(SIGNATURE, [parse_input(text) for text in asked])


def test_bounds_are_those_of_the_file_or_those_asked_for() -> None:
    bounded = (parse_input("a=float32[batch=2..9,a_1=1..5,3]"), parse_input("b=int64[batch,b_1]"))
    found = Signature(bounded, SIGNATURE.outputs)
    fitted = apply_request(found, [parse_input("a=float32[n,time=2..4,3]"), parse_input("b=int64[n,k=3..]")])
    assert fitted.bounds == {"n": Bounds(2, 9), "time": Bounds(2, 4), "k": Bounds(3, None)}
    assert fitted.outputs[0].shape == ("n", "time")


class Both(torch.nn.Module):
    def forward(self, image: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"total": image.sum((1, 2)), "masked": image * mask}


class Nested(torch.nn.Module):
    def forward(self, pair: Any, more: Any, loud: bool = True, *, scale: torch.Tensor, none: Any = None) -> Any:
        total = pair[0] + 2 * pair[1] + more["bias"]
        return {"total": total * 3 if loud else total, "parts": [pair[0] * scale, None, (pair[1],)]}


class Number(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x, 3


class Half(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.bfloat16)


def exported(path: Path, module: torch.nn.Module, inputs: tuple[Any, ...], dynamic: Any) -> Job:
    return saved(path, torch.export.export(module, inputs, dynamic_shapes=dynamic, strict=False))


def saved(path: Path, program: torch.export.ExportedProgram) -> Job:
    torch.export.save(program, path)
    (path.parent / "out").mkdir()
    return Job({}, path.parent / "out", {"path": str(path), "sha256": digest_of(path)})


def test_the_ranges_of_a_program_are_its_bounds(tmp_path: Path) -> None:
    from torch.export import Dim

    inputs = (torch.randn(6, 5, 4), torch.randn(6, 5, 4))
    batch, time = Dim("b", min=4, max=9), Dim("t", min=2, max=64)
    dynamic = ({0: batch, 1: time}, {0: batch, 1: time})
    job = exported(tmp_path / "m.pt2", Both(), inputs, dynamic)
    signature = Signature.from_json(import_pt2(job)["signature"])
    assert signature.bounds == {"batch": Bounds(4, 9), "image_1": Bounds(1, 64)}


def test_a_program_is_described_by_its_arguments_and_keys(tmp_path: Path) -> None:
    some = torch.export.Dim.DYNAMIC
    inputs = (torch.randn(3, 4, 5), torch.ones(3, 4, 5))
    import_pt2(exported(tmp_path / "m.pt2", Both(), inputs, ({0: some, 1: some}, {0: some, 1: some})))
    signature = read_artifact(tmp_path / "out").signature
    assert [str(spec) for spec in signature.inputs] == [
        "image=float32[batch,image_1,5]",
        "mask=float32[batch,image_1,5]",
    ]
    assert [str(spec) for spec in signature.outputs] == ["total=float32[batch]", "masked=float32[batch,image_1,5]"]


def of_both(tmp_path: Path, **record: Any) -> list[str]:
    """What a program of Both is taken for, that was written with a record, or with one of another content."""
    some = torch.export.Dim.DYNAMIC
    inputs = (torch.randn(3, 4, 5), torch.ones(3, 4, 5))
    program = torch.export.export(Both(), inputs, dynamic_shapes=({0: some, 1: some},) * 2, strict=False)
    specs = [parse_input(f"{name}=float32[n,time=0..,5]") for name in ("my.image", "mask")]
    signature = Signature(tuple(specs), (parse_input("sum/0=float32[n]"), parse_input("y=float32[n,time,5]")))
    path = tmp_path / "m.pt2"
    if record:
        torch.export.save(program, path, extra_files={"transload.json": json.dumps(signature.to_json() | record)})
    else:
        save_program(program, signature, path)
    import_pt2(Job({}, tmp_path / "out", {"path": str(path), "sha256": digest_of(path)}))
    taken = read_artifact(tmp_path / "out").signature
    return [str(spec) for spec in (*taken.inputs, *taken.outputs)]


def test_a_program_keeps_the_names_that_it_was_written_with(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert of_both(tmp_path) == [
        "my.image=float32[n,time=0..,5]", "mask=float32[n,time=0..,5]", "sum/0=float32[n]", "y=float32[n,time=0..,5]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "record",
    [
        {"outputs": [{"name": "y", "dtype": "float32", "shape": ["n"]}]},
        {
            "outputs": [
                {"name": name, "dtype": "float32", "shape": [None] * rank} for name, rank in (("a", 1), ("b", 3))
            ]
        },
        {"inputs": [{"name": name, "dtype": "float32", "shape": ["n", 7, 5]} for name in "ab"]},
        {"inputs": [{"name": name, "dtype": "float32", "shape": [name, "t", 5]} for name in "ab"]},
        {"inputs": 5},
    ],
)
def test_a_record_of_another_program_says_nothing(record: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert of_both(tmp_path, **record)[0] == "image=float32[batch,image_1,5]"


@pytest.mark.parametrize(
    ("module", "inputs", "dynamic", "said"),
    [
        (Number(), (torch.randn(3),), None, "m.pt2: the model returns int as output_1, which holds"),
        (Half(), (torch.randn(3),), ({0: torch.export.Dim.DYNAMIC},), "which the formats do not carry"),
    ],
)
def test_a_program_that_no_signature_describes_is_refused(
    module: torch.nn.Module, inputs: tuple[Any, ...], dynamic: Any, said: str, tmp_path: Path
) -> None:
    with pytest.raises(BadRequest, match=said):
        import_pt2(exported(tmp_path / "m.pt2", module, inputs, dynamic))


def test_a_program_of_nested_and_keyword_arguments_becomes_a_flat_one(tmp_path: Path) -> None:
    some = {0: torch.export.Dim.DYNAMIC}
    pair, bias, scale = (torch.randn(3, 4), torch.randn(3, 4)), torch.randn(3, 4), torch.randn(3, 4)
    dynamic = {"pair": (some, some), "more": {"bias": some}, "loud": None, "scale": some, "none": None}
    arguments, keywords = (pair, {"bias": bias}, True), {"scale": scale, "none": None}
    program = torch.export.export(Nested(), arguments, keywords, dynamic_shapes=dynamic, strict=False)
    import_pt2(saved(tmp_path / "m.pt2", program))
    artifact = read_artifact(tmp_path / "out")
    assert [str(spec) for spec in artifact.signature.inputs] == [
        "pair_0=float32[batch,4]", "pair_1=float32[batch,4]", "more_bias=float32[batch,4]", "scale=float32[batch,4]",
    ]  # fmt: skip
    assert [spec.name for spec in artifact.signature.outputs] == ["total", "parts_0", "parts_2_0"]
    flat = torch.export.load(artifact.path)
    assert [str(name) for name in flat.graph_signature.user_inputs] == ["pair_0", "pair_1", "more_bias", "scale"]
    made = flat.module()(*pair, bias, scale)
    wanted = Nested()(pair, {"bias": bias}, scale=scale)
    for one, other in zip(made, (wanted["total"], wanted["parts"][0], wanted["parts"][2][0]), strict=True):
        torch.testing.assert_close(one, other)


def test_a_program_with_operators_that_nothing_here_defines_is_refused_by_name(tmp_path: Path) -> None:
    library = torch.library.Library("stranger", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")

    class Strange(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.ops.stranger.twice(x)

    job = exported(tmp_path / "m.pt2", Strange(), (torch.randn(3),), None)
    assert operators(tmp_path / "m.pt2") == {"stranger": "twice"}
    library._destroy()
    with pytest.raises(ToolMissing, match=r"m.pt2 uses the operator stranger::twice, that nothing here defines"):
        import_pt2(job)


def test_an_artifact_is_taken_with_all_its_files_and_checked_where_it_lies(tmp_path: Path) -> None:
    taken(tmp_path, model([value("x", ["N", 4])], [value("y", ["N", 3])]))
    folder = tmp_path / "out"
    (tmp_path / "copy").mkdir()
    facts = import_artifact(Job({}, tmp_path / "copy", {"path": str(folder), "sha256": digest_of(folder)}))
    assert facts["target"] == "onnx"
    assert digest_of(tmp_path / "copy") == digest_of(folder)
    assert check_artifact(Job({"artifact": folder}, tmp_path))["target"] == "onnx"
    with pytest.raises(BadRequest, match="has changed since"):
        import_artifact(Job({}, tmp_path / "copy", {"path": str(folder), "sha256": "0" * 64}))


def samples(tmp_path: Path, *inputs: str) -> tuple[dict[str, Any], Any, Any]:
    signature = Signature(tuple(map(parse_input, inputs)), (TensorSpec("y", "float32", ("batch",)),))
    facts = make_samples(Job({}, tmp_path, {"signature": signature.to_json()}))
    return dict(facts), read_dataset(tmp_path / "test.npz"), read_dataset(tmp_path / "calibration.npz")


def test_random_samples_are_the_same_each_time_and_tell_axes_apart(tmp_path: Path) -> None:
    words = ("image=float32[batch,3,8]", "tokens=int64[batch,time]", "keep=bool[batch]")
    facts, test, calibration = samples(tmp_path, *words)
    again = samples(tmp_path, *words)[1]
    assert facts == {"test": 64, "calibration": 64, "labels": False, "random": True}
    assert {name: array.shape for name, array in test.inputs.items()} == {
        "image": (64, 3, 8), "tokens": (64, 5), "keep": (64,),
    }  # fmt: skip
    for name, array in test.inputs.items():
        np.testing.assert_array_equal(array, again.inputs[name])
        assert not np.array_equal(array, calibration.inputs[name])
        assert len(np.unique(array)) > 1
    assert 0.2 < test.inputs["image"].mean() < 0.4, "around 0.3: a sign that is lost shows"


def test_random_bytes_are_whole_and_other_integers_may_be_indices(tmp_path: Path) -> None:
    words = ("picture=uint8[batch,8,8,3]", "codes=int8[batch,40]", "tokens=int32[batch,40]", "keep_mask=uint8[batch,9]")
    _, test, calibration = samples(tmp_path, *words)
    for data in (test, calibration):
        assert {name: (array.min(), array.max()) for name, array in data.inputs.items()} == {
            "picture": (0, 255), "codes": (-128, 127), "tokens": (0, 3), "keep_mask": (0, 1),
        }  # fmt: skip
        assert {name: str(array.dtype) for name, array in data.inputs.items()} == {
            "picture": "uint8", "codes": "int8", "tokens": "int32", "keep_mask": "uint8",
        }  # fmt: skip


def test_what_a_model_is_traced_with_fits_a_small_table() -> None:
    codes = sample_tensors([parse_input("codes=uint8[batch,40]")], {"batch": 3})["codes"]
    assert (codes.min(), codes.max()) == (0, 3)


def test_large_samples_are_fewer(tmp_path: Path) -> None:
    assert samples(tmp_path, "image=float32[batch,3,1024,1024]")[0]["test"] == 20


@pytest.mark.parametrize(
    ("specs", "said"),
    [
        (["a=float32[n=1..4]", "b=float32[n=1..5]"], r"the axis n is 1\.\.4 in one place and 1\.\.5 in another"),
    ],
)
def test_inputs_that_no_data_can_be_made_for_are_refused(specs: list[str], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        bounds_of([parse_input(spec) for spec in specs])


def test_samples_of_a_file_are_the_test_set_and_calibrate(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    labels = np.random.default_rng(0).permutation(300)  # in the order of x, they could be read off it
    np.savez(path, x=np.arange(1200, dtype=np.float32).reshape(300, 4), labels=labels)
    inputs = [parse_input("x=float32[n,4]").to_json()]
    (tmp_path / "out").mkdir()
    options = {"kind": "arrays", "place": str(path), "sha256": digest_of(path), "inputs": inputs}
    job = Job({}, tmp_path / "out", options)
    assert take_samples(job) == {"test": 300, "calibration": 256, "labels": True}
    test, calibration = (read_dataset(tmp_path / "out" / f"{name}.npz") for name in ("test", "calibration"))
    np.testing.assert_array_equal(test.labels, labels)
    assert calibration.labels is not None
    assert set(calibration.labels) < set(range(300))
    drawn = (calibration.inputs["x"][:, 0] / 4).astype(int)
    np.testing.assert_array_equal(labels[drawn], calibration.labels)


@pytest.mark.parametrize("labelled", [False, True])
def test_an_input_may_be_called_labels(labelled: bool, tmp_path: Path) -> None:
    """As that of SAM's prompt encoder: the labels of the samples are then called labels_."""
    path = tmp_path / "d.npz"
    inputs: dict[str, Any] = {"coords": np.ones((20, 4), np.float32), "labels": np.arange(20)}
    labels: dict[str, Any] = {"labels_": np.arange(20) * 2} if labelled else {}
    np.savez(path, **inputs, **labels)
    specs = tuple(parse_input(text) for text in ("coords=float32[n,4]", "labels=int64[n]"))
    options = {"kind": "arrays", "place": str(path), "sha256": digest_of(path)}
    (tmp_path / "out").mkdir()
    job = Job({}, tmp_path / "out", {**options, "inputs": [spec.to_json() for spec in specs]})
    assert take_samples(job)["labels"] is labelled
    for name in ("test", "calibration"):
        data = read_dataset(tmp_path / "out" / f"{name}.npz", specs)
        assert list(data.inputs) == ["coords", "labels"]
        assert data.labels is None or np.array_equal(data.labels, data.inputs["labels"] * 2)


def test_a_file_that_changed_after_the_command_began_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    np.savez(path, x=np.ones(3))
    with pytest.raises(BadRequest, match="has changed since this command began"):
        take_samples(
            Job(
                {},
                tmp_path,
                {"kind": "arrays", "place": str(path), "sha256": "0" * 64, "inputs": SIGNATURE.to_json()["inputs"]},
            )
        )


def test_an_input_that_stands_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"m\.onnx lists its input x twice"):
        taken(tmp_path, model([value("x", ["N", 4])] * 2, [value("y", ["N", 3])]))


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("length", "9" * 5000, "which is no number of bytes"),
        ("checksum", "\xff", "says in no text where its data lie"),  # two bytes of UTF-8, of which one is cut below
    ],
)
def test_odd_places_of_data_are_refused(key: str, text: str, said: str, tmp_path: Path) -> None:
    made = model([value("x", ["N", 4])], [value("y", ["N", 3])])
    weights = made.graph.initializer[0]
    (tmp_path / "w.bin").write_bytes(weights.raw_data)
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="w.bin")
    weights.external_data.add(key=key, value=text)
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString().replace("\xff".encode(), b"\xff\xff"))
    with pytest.raises(BadRequest, match=said):
        check_external(parse_onnx(path), path)


def test_a_record_beside_a_program_that_is_too_deep_is_none(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.pt2", "w") as archive:
        archive.writestr("m/extra/transload.json", "[" * 100_000)
    assert recorded_signature(tmp_path / "m.pt2") is None


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("zipmap", [True, False])
def test_classes_by_name_are_refused_with_a_cut_that_keeps_the_numbers(
    named: bool, zipmap: bool, tmp_path: Path
) -> None:
    """As skl2onnx exports a classifier, with its labels as text or integers."""
    classes: dict[str, Any] = {"classlabels_strings": ["a", "b", "c"]} if named else {"classlabels_ints": [4, 5, 6]}
    maps = {key.replace("ints", "int64s"): names for key, names in classes.items()}
    ml = {"domain": "ai.onnx.ml"}
    nodes = [
        helper.make_node(
            "LinearClassifier",
            ["x"],
            ["label", "scores"],
            **ml,
            **classes,
            coefficients=[0.5] * 12,
            intercepts=[0.1] * 3,
        ),
        helper.make_node("ZipMap", ["scores"], ["maps"], **ml, **maps),
    ]
    key, kinds = (TensorProto.STRING, "text") if named else (TensorProto.INT64, "a map for each sample")
    of_maps = helper.make_sequence_type_proto(
        helper.make_map_type_proto(key, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    )
    second = helper.make_value_info("maps", of_maps) if zipmap else value("scores", ["N", 3])
    outputs = [value("label", ["N"], key), second]
    graph = helper.make_graph(nodes[: 1 + zipmap], "g", [value("x", ["N", 4])], outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    classifier = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    if not (named or zipmap):
        taken(tmp_path, classifier)
        return
    with pytest.raises(BadRequest) as caught:
        taken(tmp_path, classifier)
    assert kinds in caught.value.what
    numbers = ["scores"] if named else ["label", "scores"]
    assert caught.value.fix.startswith(f"onnx.utils.extract_model('m.onnx', 'numbers.onnx', ['x'], {numbers}), or ")
    onnx.utils.extract_model(tmp_path / "m.onnx", tmp_path / "numbers.onnx", ["x"], numbers)
    (tmp_path / "again").mkdir()
    taken(tmp_path / "again", onnx.load(tmp_path / "numbers.onnx"))


@pytest.mark.parametrize("domain", ["", "TRT"])
@pytest.mark.parametrize("operator", ["EfficientNMS_TRT", "BatchedNMSDynamic_TRT", "GridAnchor_TRT"])
def test_a_plugin_of_tensorrt_is_refused_with_a_cut_before_its_nms(operator: str, domain: str, tmp_path: Path) -> None:
    weights = [numpy_helper.from_array(np.ones((4, 3), np.float32), "w")]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("Relu", ["x"], ["boxes"]),
        helper.make_node(operator, ["boxes", "scores"], ["count"], domain=domain),
    ]
    made = [value("count", ["N", 1], TensorProto.INT32)]
    graph = helper.make_graph(nodes, "g", [value("x", ["N", 4])], made, weights)
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    with pytest.raises(BadRequest) as caught:
        taken(tmp_path, helper.make_model(graph, opset_imports=opsets, ir_version=8))
    assert caught.value.what.endswith(f"m.onnx holds {operator}, a plugin that TensorRT alone has")
    if "NMS" not in operator:
        assert caught.value.fix == "export it without TensorRT's plugins"
        return
    cut = "onnx.utils.extract_model('m.onnx', 'cut.onnx', ['x'], ['boxes', 'scores'], check_model=False)"
    assert caught.value.fix == f"cut the model before it, and choose boxes where it is called: {cut}"
    onnx.utils.extract_model(tmp_path / "m.onnx", tmp_path / "cut.onnx", ["x"], ["boxes", "scores"], check_model=False)
    (tmp_path / "again").mkdir()
    taken(tmp_path / "again", onnx.load(tmp_path / "cut.onnx"))


def test_a_function_in_the_file_that_is_named_like_a_plugin_is_none(tmp_path: Path) -> None:
    own = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    body = [helper.make_node("Relu", ["a"], ["b"])]
    function = helper.make_function("own", "Clip_TRT", ["a"], ["b"], body, own[:1])
    node = helper.make_node("Clip_TRT", ["x"], ["y"], domain="own")
    graph = helper.make_graph([node], "g", [value("x", ["N", 4])], [value("y", ["N", 4])])
    taken(tmp_path, helper.make_model(graph, opset_imports=own, functions=[function], ir_version=8))
