"""What compiles a model compiles all of it, or refuses it."""

from __future__ import annotations

import _ctypes
import os
import sys
from contextlib import ExitStack
from operator import attrgetter
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest

from transload.models.artifact import write_artifact
from transload.models.errors import OpenFailed, SessionLost, ToolMissing
from transload.models.formats import Format, Target
from transload.models.signature import Signature, TensorSpec
from transload.models.sources import CodeRef, Source, write_source
from transload.serving.runtimes import inductor_cache, tensorflow_xla_session, torch_compile_session
from transload.serving.runtimes.runtime_table import RUNTIMES

_VECTOR = ("batch", 4)
SIGNATURE = Signature((TensorSpec("x", "float32", _VECTOR),), (TensorSpec("y", "float32", _VECTOR),))
BREAKS = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2
"""


def source_folder(folder: Path) -> Path:
    (folder / "net.py").write_text(BREAKS)
    write_source(folder, Source(CodeRef(f"{folder / 'net.py'}:Net"), SIGNATURE, "0" * 64))
    return folder


def test_a_line_that_dynamo_gives_up_on_is_not_run_eagerly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")  # the session sets it, and must not set ours
    monkeypatch.setattr(torch_compile_session, "prepare_inductor", lambda *_: tmp_path)  # it compiles nothing here
    session = torch_compile_session.open_session(source_folder(tmp_path), "cpu", 1)
    with pytest.raises(SessionLost, match=r"torch-compile gave no answer to inputs that fit the signature: .*graph"):
        session.run({"x": np.ones((2, 4), np.float32)})
    session.close()


def test_no_python_is_started_to_ask_for_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The walls of a worker refuse it, which ended each compilation on a processor with AVX-512 for bfloat16."""
    from torch._dynamo import config as dynamo_config
    from torch._inductor import config
    from torch._inductor.cpu_vec_isa import VecAVX2

    own = sys.executable
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
    names = ("compile_threads", "cpp.vec_isa_ok", "cpp_cache_precompile_headers", "force_disable_caches",
             "aot_inductor.precompile_headers")  # fmt: skip
    settings = config.patch({name: attrgetter(name)(config) for name in names})
    limit = dynamo_config.patch(fail_on_recompile_limit_hit=dynamo_config.fail_on_recompile_limit_hit)
    with settings, limit, ExitStack() as undo:  # both are as before afterwards
        assert VecAVX2()._probe_load(_ctypes.__file__)
        inductor_cache.prepare_inductor("torch-compile", undo)
        assert sys.executable != own
        assert not VecAVX2()._probe_load(_ctypes.__file__)
    assert sys.executable == own


@pytest.mark.parametrize("name", [name for name, runtime in RUNTIMES.items() if runtime.compiles])
def test_a_compiler_that_cannot_be_started_is_one_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / Format.PT2.spec.payload).write_bytes(b"")
    write_artifact(tmp_path, Target(Format.PT2), SIGNATURE)
    monkeypatch.setenv("CXX", "no-such-compiler")
    module = {"torch-compile": "torch_compile_session", "aotinductor": "aotinductor_session"}[name]
    entry = __import__(f"transload.serving.runtimes.{module}", fromlist=["open_session"]).open_session
    with pytest.raises(ToolMissing) as caught:
        entry(tmp_path, "cpu", 1)
    assert caught.value.what == (
        f"{name} needs a C++ compiler, and no-such-compiler cannot be started: "
        "[Errno 2] No such file or directory: 'no-such-compiler'"
    )
    assert caught.value.fix == "install g++, or name another compiler in the variable CXX"


def saved_model(folder: Path, *, compiles: bool) -> Path:
    import tensorflow as tf

    class Net(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, "x")])
        def serve(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
            # XLA has no decoder of numbers in texts, as it has no texts.
            y = x if compiles else tf.strings.to_number(tf.strings.as_string(x))
            return {"y": y * 2}

    net, path = Net(), folder / Format.SAVED_MODEL.spec.payload
    tf.saved_model.save(net, str(path), signatures={"serving_default": net.serve})
    write_artifact(folder, Target(Format.SAVED_MODEL), SIGNATURE)
    return folder


def test_xla_compiles_a_signature_or_refuses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("good", "bad"):
        (tmp_path / name).mkdir()
    session = tensorflow_xla_session.open_session(saved_model(tmp_path / "good", compiles=True), "cpu", 1)
    for batch in (1, 3):
        np.testing.assert_array_equal(session.run({"x": np.ones((batch, 4), np.float32)})["y"], np.full((batch, 4), 2))
    session.close()
    with pytest.raises(OpenFailed, match=r"tensorflow-xla cannot open .*unsupported operations"):
        tensorflow_xla_session.open_session(saved_model(tmp_path / "bad", compiles=False), "cpu", 1)
    # A function that TensorFlow was not told to compile would run as it is: what was executed shows it.
    monkeypatch.setattr(tensorflow_xla_session, "_MUST_COMPILE", "_another_attribute")
    with pytest.raises(ToolMissing, match=r"did not leave all of .* to XLA: (Stateful)?PartitionedCall"):
        tensorflow_xla_session.open_session(tmp_path / "good", "cpu", 1)
