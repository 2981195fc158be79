"""Refusals of models that no route carries: each names the user's line, and a fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from transload.converters.to_onnx.onnx_from_source import onnx_from_source
from transload.converters.to_pytorch.pt2_from_source import pt2_from_source
from transload.converters.to_pytorch.torchscript_from_source import torchscript_from_source
from transload.models.errors import Refused

from .route_models import (
    PLAIN,
    WIDE,
    line_at,
    run_step,
    source,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's exporters announce their end, and what they trace

WHERE = "compute both and choose with torch.where, or write "
STOPPED = "write that line with operators of torch alone, or name a target that another route leads to"
REFUSALS = {
    "Branches": (pt2_from_source, PLAIN, "if x.sum() > 0:",
                 "the model takes one way or another by its data, at {line}\n"
                 f"  fix: {WHERE}the branch as torch.cond"),
    "Loops": (pt2_from_source, PLAIN, "while x.abs()", "the model takes one way or another by its data, at {line}\n"
              f"  fix: {WHERE}the branch as torch.cond"),
    "Sized": (pt2_from_source, PLAIN, "return x[: int(", "the model makes a Python number of its data, at {line}\n"
              "  fix: keep every size one that the inputs' shapes tell: mask or pad in place of cutting by a value"),
    "Numpy": (torchscript_from_source, PLAIN, "if x.numpy()",
              "the model takes one way or another by its data, at {line}: a trace keeps one of them; compiling its "
              "source fails at {line}: 'Tensor (inferred)' object has no attribute or method 'numpy'\n"
              f"  fix: {WHERE}forward as torch.jit.script takes it"),
    "Bound": (torchscript_from_source, PLAIN, "return self.square(x)",
              "TorchScript cannot hold a torch.autograd.Function that is called by another name, at {line}\n"
              "  fix: call it as NAME.apply(...) there, in place of a name that was bound to it before"),
    "Slope": (pt2_from_source, PLAIN, "return torch.vmap(",
              "torch.export takes no derivatives of torch.func, at {line}\n"
              "  fix: leave the derivative out of forward, or write it out as a formula of its own"),
    "Length": (pt2_from_source, PLAIN, "return x * operator.index",
               "the axis batch of x cannot be dynamic: the model makes its size a constant at {line}\n"
               "  fix: keep it a size there, as x.shape[0] is and what range(...) and operator.index(...) take is not; "
               "or fix it, as in --input x=float32[SIZE,4]"),
    "Rows": (pt2_from_source, WIDE, "return torch.cat([row - row.mean",
             "the model takes another way at other sizes of time at {line}; one program holds for 1..127 alone\n"
             "  fix: say so, as in --input x=float32[batch,time=1..127], or compute both ways"),
    "Wide": (pt2_from_source, WIDE, "return x * 2 if x.shape[1]",
             "the model takes another way at other sizes of time at {line}; one program holds for 1..39 alone\n"
             "  fix: say so, as in --input x=float32[batch,time=1..39], or compute both ways"),
    "Chosen": (torchscript_from_source, WIDE, "return {True: torch.sin",
               "the model takes another way at other sizes of time at {line}; one program holds for 1..39 alone; "
               "compiling its source fails at {line}: builtin cannot be used as a value\n"
               "  fix: say so, as in --input x=float32[batch,time=1..39], or compute both ways"),
    "Exact": (pt2_from_source, WIDE, "return torch.sin(x) if x.shape[1] == 80",
              "the model takes another way at the size 80 of time at {line}\n"
              "  fix: compute both ways, or give --input bounds without that size"),
    "Sides": (pt2_from_source, "x=float32[batch,height,width]", "return x.mT if x.shape[1] == x.shape[2]",
               "the model takes another way where height and width are of one size at {line}\n"
               "  fix: compute both ways, or fix one of them to a size with --input"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_carried_is_refused_with_the_users_line(name: str, tmp_path: Path) -> None:
    step, inputs, line, words = REFUSALS[name]
    start = source(tmp_path, name, inputs)
    with pytest.raises(Refused) as caught:
        run_step(step, start, "made")
    assert str(caught.value) == words.format(line=line_at(tmp_path, line))


def test_a_size_that_is_made_a_constant_is_named_with_the_line_that_does_it(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        run_step(pt2_from_source, source(tmp_path, "Lengths", PLAIN, "lengths=float32[batch]"), "made")
    assert caught.value.what == (
        "the axis batch of x cannot be dynamic: the model makes its size a constant at "
        f"{line_at(tmp_path, 'mask = torch.arange(4).expand(operator')}"
    )


def test_a_line_that_axes_are_only_as_long_as_each_other_for_is_not_blamed(tmp_path: Path) -> None:
    start = source(tmp_path, "Triangle", "x=float32[batch,time,time]", "y=float32[batch,time,time]")
    with pytest.raises(Refused) as caught:
        run_step(pt2_from_source, start, "made")
    assert caught.value.what == (
        "the axis time of x cannot be dynamic: the model makes its size a constant at "
        f"{line_at(tmp_path, 'return both * torch.tril_indices')}"
    )


def test_what_torch_export_stops_at_is_named_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        run_step(pt2_from_source, source(tmp_path, "Numpy", PLAIN), "made")
    assert caught.value.what.startswith(f"torch.export stops at {line_at(tmp_path, 'if x.numpy()')}: ")
    assert caught.value.fix == STOPPED


def test_a_loop_that_cannot_be_compiled_is_named_with_its_line_and_where_compiling_stops(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        run_step(torchscript_from_source, source(tmp_path, "Backwards", "x=float32[batch,time]"), "made")
    assert str(caught.value) == (
        f"the model takes other steps at other sizes at {line_at(tmp_path, 'rows.append')}, as a loop over an axis does"
        ": a trace keeps those of its example, and answers otherwise than the model at batch=2 and time=8; compiling "
        "its "
        f"source fails at {line_at(tmp_path, 'for row in reversed')}: Expected a value of type 'Tensor' for argument "
        "'0' but instead found type 'List[Tensor]'\n"
        "  fix: take its parts by an index there (range(n - 1, -1, -1)), or turn it round by .flip(1); or give the "
        "size that it is for, as in --input x=float32[batch,SIZE]"
    )


MENDS = {
    "Nothing": ("state = self.cell(", "begin with a tensor of zeros before the loop, in place of None"),
    "Grown": ("state = x[:, at] if state", "begin with a tensor of zeros before the loop, in place of None"),
    "Downwards": ("for at in reversed(range", "write range(n - 1, -1, -1) there, in place of reversed(range(n))"),
    "Handed": ("def called(self, function", "call the function itself there, in place of one that is handed over"),
    "Nameless": ("twice = lambda", "write a method of the module there, in place of the lambda"),
    "Asked": (
        "return len(ctx.needs_input_grad)",
        "write forward's expression there, in place of the torch.autograd.Function",
    ),
}


@pytest.mark.parametrize("name", MENDS)
def test_where_compiling_stops_is_said_with_what_to_write_there(name: str, tmp_path: Path) -> None:
    line, mend = MENDS[name]
    with pytest.raises(Refused) as caught:
        run_step(torchscript_from_source, source(tmp_path, name, "x=float32[batch,time]"), "made")
    assert f"; compiling its source fails at {line_at(tmp_path, line)}: " in caught.value.what
    assert caught.value.fix == f"{mend}; or give the size that it is for, as in --input x=float32[batch,SIZE]"


def test_a_loop_over_an_axis_is_left_where_it_is(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        run_step(pt2_from_source, source(tmp_path, "Grown", "x=float32[batch,time]"), "made")
    assert str(caught.value) == (
        "the axis time of x cannot be dynamic: the model makes its size a constant at "
        f"{line_at(tmp_path, 'for at in range(x.shape[1]):  # from nothing')}\n"
        "  fix: leave the loop, which goes by compiling the source, and mend the line that another route stops at; or "
        "compute on the whole axis at once; or fix it, as in --input x=float32[batch,SIZE]"
    )


def test_an_input_and_an_output_of_one_name_are_refused_for_onnx(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="an input and an output are both called x"):
        run_step(onnx_from_source, source(tmp_path, "Same", PLAIN), "made")
