"""What a net is made of."""

from __future__ import annotations

from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class NetConfig:
    """Read from configs/*.ini."""

    classes: int
    widths: tuple[int, ...]
    dropout: float

    @staticmethod
    def read(path: str) -> NetConfig:
        """Relative to the repository, wherever one stands."""
        parser = ConfigParser()
        parser.read_string((Path(__file__).parents[1] / path).read_text())
        net = parser["net"]
        return NetConfig(
            net.getint("classes"), tuple(int(each) for each in net["widths"].split()), net.getfloat("dropout")
        )
