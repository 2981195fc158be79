"""The command `transload`, with a process for every core of the cluster: lists on large clusters have several."""

from __future__ import annotations

import sys

from transload.pipeline.cli import main
from transload.pipeline.schedule import driver_count

if __name__ == "__main__":
    driver_count.CORES_OF_DRIVER = 1
    sys.exit(main())
