"""The models of `small_nets`, in a module that transload's own torch cannot import: only their environment makes them.

It stands for a project whose packages need a torch that is not transload's. What is converted has to be handed over.
"""

import sys

if "transload" in sys.modules:
    raise ImportError("this project needs packages that only its own environment has")

from small_nets import *  # noqa: F403
