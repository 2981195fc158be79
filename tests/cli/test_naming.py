"""Models as people name them: in a repository of their own, with settings and parts of checkpoints, by libraries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = (sys.executable, "-P", "-m", "transload")

BUILD = """
from __future__ import annotations
import dataclasses
from converters import scale          # the repository's own, called like a package of transload
from models.net import Net
import json                           # Python's: json.py of the repository hides it from nobody

@dataclasses.dataclass
class Config:
    width: int = 2
    steps: tuple[int, ...] = (1,)

def make(config: Config, name: str = "plain", *, sharp: bool = False) -> Net:
    assert isinstance(config.steps, tuple) and sharp is True and name == "50", (config, sharp, name)
    sizes = json.loads(open("configs/sizes.json").read())  # relative to where one stands
    return Net(sizes["in"], config.width, scale(len(config.steps)))
"""
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self, size, width, factor):
        super().__init__()
        self.line, self.factor = torch.nn.Linear(size, width), factor

    def forward(self, x):
        return torch.tanh(self.line(x)) * self.factor
"""
SAVE = """
import torch
from models.net import Net
torch.manual_seed(4)
student, teacher = Net(3, 5, 2.0), Net(3, 5, 2.0)
torch.save({"epoch": 3, "ema": {"state": {f"module.{k}": v.half() for k, v in teacher.state_dict().items()}},
            "state_dict": student.state_dict()}, "last.ckpt")
"""
BERT = """
import sys
sys.modules["torchvision"] = None  # transformers would import it, and it is built for another torch
import transformers
config = transformers.DistilBertConfig(vocab_size=50, dim=16, n_layers=1, n_heads=2, hidden_dim=32,
                                       max_position_embeddings=32, num_labels=3)
transformers.DistilBertForSequenceClassification(config).save_pretrained("best")
"""


def run(here: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*PROGRAM, *words], cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr + done.stdout
    return done


def signature(folder: Path) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = json.loads((folder / "artifact.json").read_text())["signature"]
    return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with packages called as ours are, and a checkpoint of a training."""
    here = tmp_path_factory.mktemp("project")
    for name in ("models", "converters", "pipeline", "configs"):
        (here / name).mkdir()
        (here / name / "__init__.py").write_text("")
    (here / "converters" / "__init__.py").write_text("def scale(count):\n    return 2.0 * count\n")
    (here / "json.py").write_text("raise ImportError('a file of the user that is called like one of Python')\n")
    (here / "configs" / "sizes.json").write_text('{"in": 3}')
    (here / "models" / "net.py").write_text(NET)
    (here / "models" / "build.py").write_text(BUILD)
    script = "import sys; import json; sys.path.append('.')\n" + SAVE
    subprocess.run([sys.executable, "-P", "-c", script], cwd=here, check=True)
    return here


SETTINGS = ("--set", "config.width=5", "--set", "config.steps=[7]", "--set", "sharp=True", "--set", 'name="50"')
WEIGHTS = ("--weights", "last.ckpt", "--weights-key", "ema.state", "--input", "x=float32[batch,3]")


@pytest.mark.slow
def test_a_factory_of_a_repository_is_called_with_settings_and_given_a_part_of_a_checkpoint(project: Path) -> None:
    made = run(project, "convert", "models.build:make", *SETTINGS, *WEIGHTS, "--to", "pt2,onnx", "--out", "made")
    assert "2 weights are float16 in last.ckpt" in made.stderr
    assert signature(project / "made" / "pt2")["outputs"][0]["shape"] == ["batch", 5]
    same = run(
        project, "validate", "made/onnx", "--against", "models/build.py:make", *SETTINGS, *WEIGHTS, "--json",
        "--runtime", "onnxruntime", "--batch", "1,3",
    )  # fmt: skip
    assert json.loads(same.stdout)["verdict"] == "pass"
    other = (*SETTINGS, "--weights", "last.ckpt", "--input", "x=float32[batch,3]")  # the student's
    run(project, "validate", "made/onnx", "--against", "models.build:make", *other, "-q", status=1)


@pytest.mark.slow
def test_another_setting_is_another_model_in_the_store(project: Path) -> None:
    said = {}
    for width in ("3", "4"):
        words = ("--set", f"config.width={width}", *SETTINGS[2:], "--input", "x=float32[batch,3]", "--to", "pt2")
        run(project, "convert", "models.build:make", *words, "--out", f"wide{width}", "-q")
        said[width] = signature(project / f"wide{width}" / "pt2")["outputs"][0]["shape"]
    assert said == {"3": ["batch", 3], "4": ["batch", 4]}


@pytest.mark.slow
def test_a_transformers_folder_is_a_model(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-P", "-c", BERT], cwd=tmp_path, check=True, capture_output=True)
    done = run(tmp_path, "convert", "best", "--to", "onnx", "--out", "made", status=2)
    assert "best is no artifact; it looks like a model of transformers\n  fix: name it hf:best\n" in done.stderr
    run(tmp_path, "convert", "hf:best", "--to", "onnx", "--out", "made", "--quiet")
    found = signature(tmp_path / "made" / "onnx")
    assert [(spec["name"], spec["shape"]) for spec in found["inputs"]] == [
        ("input_ids", ["batch", "tokens"]), ("attention_mask", ["batch", "tokens"]),
    ]  # fmt: skip
    assert [(spec["name"], spec["shape"]) for spec in found["outputs"]] == [("logits", ["batch", 3])]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "shape"),
    [
        (("torchvision:squeezenet1_1", "--set", "num_classes=7"), ["batch", 3, 224, 224]),
        (("timm:resnet10t", "--set", "in_chans=1", "--input", "x=float32[batch,1,32,48]"), ["batch", 1, 32, 48]),
    ],
)
def test_a_librarys_model_is_taken_by_its_name(words: tuple[str, ...], shape: list[object], tmp_path: Path) -> None:
    done = run(tmp_path, "convert", *words, "--to", "pt2", "--out", "made")
    assert signature(tmp_path / "made" / "pt2")["inputs"][0]["shape"] == shape
    assert "are random: --weights names trained ones" in done.stderr


def test_a_file_that_needs_a_library_which_is_not_here_names_it(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("import no_such_lightning as L\n\nclass Net(L.LightningModule): ...\n")
    done = run(tmp_path, "convert", "module.py:Net", "--to", "pt2", "--out", "made", "-q", status=2)
    assert done.stderr == (
        f"error: importing module.py needs no_such_lightning, which is not installed ({tmp_path}/module.py:1)\n"
        "  fix: name the Python that has it with --python, or install no_such_lightning where transload is installed\n"
    )
