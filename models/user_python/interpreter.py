"""The record of a user's own interpreter, which makes and answers their model (docs/environments.md)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..job import Facts
from .inside.conversation import TENSORFLOW

TORCH = "torch"


@dataclass(frozen=True, kw_only=True)
class UserPython(Facts):
    """A Python that is not ours, with the versions and the folders that a model of it depends on."""

    path: str  # absolute, as it is called: a virtual environment knows itself by that
    version: str  # "3.11.9"
    torch: str  # empty: not there
    tensorflow: str = ""  # empty: not there
    keras: str = ""
    framework: str = TORCH  # of the model: TORCH or TENSORFLOW
    numpy: str = ""
    digest: str = ""  # of the names and versions of everything that is installed there
    folders: tuple[str, ...] = ()  # that it reads: its own, and those of packages that lie elsewhere
    packages: tuple[str, ...] = ()  # that its modules come from, beside Python's own
    programs: tuple[str, ...] = ()  # what the kernel starts for it: itself and its loader, links resolved
    pythonpath: tuple[str, ...] = ()  # folders of the user's PYTHONPATH, which holds there
    user_base: str = ""  # where `pip install --user` puts packages for it

    @property
    def summary(self) -> str:
        """Its versions in words, "torch 2.4.1, Python 3.10"."""
        return f"{self.framework_summary}, Python {self.version.rpartition('.')[0]}"

    @property
    def framework_summary(self) -> str:
        """The framework of the model and its version in words, "TensorFlow 2.15.1"."""
        if self.framework == TENSORFLOW:
            return f"TensorFlow {self.tensorflow}" + (f" with Keras {self.keras}" if self.keras else "")
        return f"torch {self.torch.partition('+')[0]}"

    @property
    def environment(self) -> Path:
        """The folder of the environment that it belongs to, as a person knows it."""
        return Path(self.path).parent.parent
