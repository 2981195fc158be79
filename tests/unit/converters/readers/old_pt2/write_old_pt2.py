"""Write `torch-VERSION.pt2.gz` with the torch that runs this: the files beside it are of torch 2.2.2, 2.3.1, 2.4.1, ...

    python write_old_pt2.py FOLDER        (Python 3.9 or later, torch 2.2 or later)

The model holds what the schemas of torch's releases write differently: buffers that are and are not persistent, an
index with gaps, a branch on data, sizes that are divided, infinity, and from torch 2.4 on a constant among the inputs
and a part without gradients. The test imports it too, and compares.
"""

import gzip
import pathlib
import sys

import torch
from torch import nn

VERSION = ".".join(torch.__version__.split("+")[0].split("."))
NEWER = tuple(map(int, VERSION.split(".")[:2])) >= (2, 4)


class Mixed(nn.Module):
    """Numbers of a row, weighted, branched on, halved in number, and their greatest."""

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 4)
        with torch.no_grad():
            self.body.weight.copy_(torch.arange(12.0).reshape(4, 3) / 7 - 0.5)
            self.body.bias.copy_(torch.arange(4.0) / 3)
        self.register_buffer("scale", torch.tensor([0.5, 2.0]))
        self.register_buffer("shift", torch.tensor([1.0, -1.0]), persistent=False)

    def forward(self, x, negate=False):
        y = torch.relu(self.body(x))[:, torch.tensor([2, 0])] * self.scale + self.shift
        y = torch.cond(y.sum() > 5, lambda y: y + 1, lambda y: y - 1, [y])
        half = torch.ones(x.shape[0] // 2 + 2, 1) * y.mean(0)
        y = y.masked_fill(y < 0, float("-inf")).clamp(min=-9.0)
        return {"y": -y if negate else y, "half": half}


class Detached(Mixed):
    """The same, of which a part is computed without gradients."""

    def forward(self, x, negate=False):
        with torch.no_grad():
            offset = self.body(x)[:, :1]
        return {"offset": offset, **super().forward(x, negate)}


def main(folder):
    batch = torch.export.Dim("batch", min=1, max=64)
    if NEWER:
        program = torch.export.export(
            Detached().eval(), (torch.ones(4, 3), True), dynamic_shapes={"x": {0: batch}, "negate": None}
        )
    else:
        program = torch.export.export(Mixed().eval(), (torch.ones(4, 3),), dynamic_shapes={"x": {0: batch}})
    graphs = (part.graph for part in program.graph_module.modules() if hasattr(part, "graph"))
    for node in (node for graph in graphs for node in graph.nodes):
        for key in ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "from_node"):  # half of the file
            node.meta.pop(key, None)
    path = pathlib.Path(folder, f"torch-{VERSION}.pt2")
    torch.export.save(program, path, extra_files={"note.txt": "kept"})
    pathlib.Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
    path.unlink()


if __name__ == "__main__":
    main(sys.argv[1])
