"""What Inductor, PyTorch's compiler, needs for both of its runtimes: the C++ compiler, and a folder that nobody shares.

Each session compiles anew in a folder of its own, so that its time to load is that of a first load, whatever ran
before. Inductor's own probes of the processor start Python, which a worker's walls refuse; it would then compile
without vectors, and say nothing. So it goes by the processor's flags alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.errors import ToolMissing

if TYPE_CHECKING:
    import torch

_LIMIT_S = 60


def prepare_inductor(runtime: str, undo: ExitStack) -> Path:
    """Prepare this process to compile for a session, and return a folder, which `undo` removes.
    Raises ToolMissing where no C++ compiler can be started."""
    compiler = _check_compiler(runtime)
    folder = Path(tempfile.mkdtemp(prefix="inductor-"))
    undo.callback(shutil.rmtree, folder, ignore_errors=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    from torch._dynamo import config as dynamo_config
    from torch._inductor import config

    dynamo_config.fail_on_recompile_limit_hit = True  # else it runs eagerly then, and says nothing
    config.compile_threads = 1  # more are processes of Python's
    config.cpp.vec_isa_ok = True
    # torch 2.13 (_inductor/cpu_vec_isa.py) starts sys.executable to probe for AVX-512's bfloat16, VNNI and AMX, even
    # with vec_isa_ok. The walls forbid that, and the PermissionError would end the compilation. They allow the
    # compiler, which fails the probe, so that torch takes these instructions for absent.
    undo.callback(setattr, sys, "executable", sys.executable)
    sys.executable = compiler
    # torch 2.13 asks openssl for the digests of headers that it compiles ahead. Without, it compiles them each time.
    config.cpp_cache_precompile_headers = config.aot_inductor.precompile_headers = False
    config.force_disable_caches = True
    return folder


def load_compiled(program: torch.export.ExportedProgram, folder: Path) -> Callable[..., Any]:
    """Compile an exported program into a package in `folder`, and load it as a function of its inputs by position."""
    from torch._inductor import aoti_compile_and_package, aoti_load_package

    package = aoti_compile_and_package(program, package_path=str(folder / "compiled.pt2"))
    loaded: Callable[..., Any] = aoti_load_package(package)
    return loaded


def _check_compiler(runtime: str) -> str:
    """Return the C++ compiler's name. Raises ToolMissing where it cannot be started."""
    name = os.environ.get("CXX") or "g++"
    try:
        subprocess.run([name, "--version"], capture_output=True, timeout=_LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolMissing(
            f"{runtime} needs a C++ compiler, and {name} cannot be started: {error}",
            fix="install g++, or name another compiler in the variable CXX",
        ) from error
    return name
