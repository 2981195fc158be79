"""A package that lies beside the model's file, as many projects have one."""

from .blocks import Squeeze

__all__ = ["Squeeze"]
