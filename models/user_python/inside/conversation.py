"""What a user's own interpreter does: it makes their model, and answers transload's questions about it.

It reads requests and writes replies on two pipes (frames.py); stdout and stderr are the log's.

    {"do": "hello", "threads": 1, "onednn": true}                    imports torch, or TensorFlow
    {"do": "build", "code": {file, module, name, root, settings}}  -> what the model's describe() returns
    {"do": "call", "arguments": tree, "keywords": tree}            -> {"result": tree}
    {"do": "state" | "load" | "widen_halves" | "widen" | "changed" | "example" | "capture", ...}

A model of Keras or TensorFlow (tensorflow_model.py) is asked the same, but for its widening, and its capture is a
SavedModel. A reply is {"value": ..., "read": [files that the user's code has read]} or {"error": {...}} (failures.py).
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from .failures import failure_record
from .frames import read_frame, write_frame
from .trees import decode_tree, encode_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from .tensorflow_model import TensorFlowModel
    from .user_model import UserModel

TENSORFLOW = "tensorflow"  # the framework of a Keras model, too


class ReadFiles:
    """The files that are read from now on, beside those of this interpreter: the model depends on them."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._own = tuple(f"{folder.rstrip('/')}/" for folder in (*folders, "/proc", "/sys", "/dev", "/etc", "/usr"))
        self._paths: set[str] = set()
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            path = os.path.abspath(arguments[0])
            if not path.startswith(self._own) and "__pycache__" not in path:
                self._paths.add(path)

    def take(self) -> list[str]:
        """Return those since the last time that are still there."""
        paths, self._paths = self._paths, set()
        return sorted(path for path in paths if os.path.isfile(path))


class Conversation:
    """One model, and the answers to requests about it."""

    def __init__(self) -> None:
        self._model: Any = None

    @property
    def _built(self) -> Any:
        if self._model is None:
            raise ValueError("there is no model yet")
        return self._model

    def answer(self, request: dict[str, Any], tensors: list[Any]) -> tuple[Any, list[Any]]:
        """Return the value and the tensors of the reply. Raises whatever the user's code raises."""
        method: Callable[..., tuple[Any, list[Any]]] = getattr(self, f"_do_{request.pop('do')}")
        return method(tensors, **request)

    def _do_state(self, _: list[Any]) -> tuple[Any, list[Any]]:
        state = self._built.state()
        return {"names": list(state)}, list(state.values())

    def _do_load(self, tensors: list[Any], names: list[str]) -> tuple[Any, list[Any]]:
        self._built.load_state(dict(zip(names, tensors)))
        return {}, []

    def _do_changed(self, _: list[Any]) -> tuple[Any, list[Any]]:
        return self._built.changed(), []

    def _do_example(self, _: list[Any]) -> tuple[Any, list[Any]]:
        example = self._built.example()
        if example is None:
            return None, []
        tensors: list[Any] = []
        return {"inputs": encode_tree(example[0], tensors), "origin": example[1]}, tensors

    def _do_call(self, tensors: list[Any], arguments: Any, keywords: Any) -> tuple[Any, list[Any]]:
        result = self._built.call(decode_tree(arguments, tensors), decode_tree(keywords, tensors))
        answers: list[Any] = []
        return {"result": encode_tree(result, answers)}, answers


class TorchConversation(Conversation):
    """About a module of torch."""

    _model: UserModel | None

    def _do_hello(self, _: list[torch.Tensor], threads: int, onednn: bool) -> tuple[Any, list[torch.Tensor]]:
        import torch

        torch.set_num_threads(threads)
        torch.backends.mkldnn.set_flags(onednn)  # type: ignore[no-untyped-call]
        return {"torch": str(torch.__version__)}, []

    def _do_build(self, _: list[torch.Tensor], code: dict[str, Any]) -> tuple[Any, list[torch.Tensor]]:
        from .user_model import UserModel

        self._model = UserModel(**code)
        return self._model.describe(), []

    def _do_widen_halves(self, _: list[torch.Tensor]) -> tuple[Any, list[torch.Tensor]]:
        self._built.widen_halves()
        return {}, []

    def _do_widen(self, _: list[torch.Tensor], noise: float, seed: int) -> tuple[Any, list[torch.Tensor]]:
        self._built.widen(noise, seed)
        return {}, []

    def _do_capture(self, tensors: list[torch.Tensor], **request: Any) -> tuple[Any, list[torch.Tensor]]:
        from .captures import CaptureRequest, capture

        return capture(self._built.module, CaptureRequest(**request), tensors)


class TensorFlowConversation(Conversation):
    """About a model of Keras or TensorFlow. Tensors are numpy's arrays."""

    _model: TensorFlowModel | None

    def _do_hello(self, _: list[Any], threads: int, onednn: bool) -> tuple[Any, list[Any]]:
        from .tensorflow_model import prepare_tensorflow

        return {"tensorflow": prepare_tensorflow(threads, onednn=onednn)}, []

    def _do_build(self, _: list[Any], code: dict[str, Any]) -> tuple[Any, list[Any]]:
        from .tensorflow_model import TensorFlowModel

        self._model = TensorFlowModel(**code)
        return self._model.describe(), []

    def _do_widen_halves(self, _: list[Any]) -> tuple[Any, list[Any]]:
        return {}, []  # a model with such weights is refused

    def _do_capture(self, tensors: list[Any], **request: Any) -> tuple[Any, list[Any]]:
        from .captures import CaptureRequest
        from .saved_model_writer import write_saved_model

        return write_saved_model(self._built, CaptureRequest(**request), tensors), []


def serve(framework: str, requests: int, replies: int) -> None:
    """Answer requests about a model of a framework until the other side closes its pipe."""
    read = ReadFiles([sys.prefix, sys.base_prefix, os.getcwd(), os.path.dirname(__file__)])
    uses_numpy = framework == TENSORFLOW
    conversation = TensorFlowConversation() if uses_numpy else TorchConversation()
    with os.fdopen(requests, "rb") as incoming, os.fdopen(replies, "wb") as outgoing:
        while True:
            frame = read_frame(incoming, as_numpy=uses_numpy)
            if frame is None:
                return
            tensors: list[Any] = []
            try:
                value, tensors = conversation.answer(*frame)
                reply = {"value": value, "read": read.take()}
                write_frame(outgoing, reply, tensors)
            except BaseException as error:  # noqa: BLE001  (SystemExit of a module, too, becomes a sentence)
                write_frame(outgoing, {"error": failure_record(error)})
