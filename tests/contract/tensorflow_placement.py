"""Print where TensorFlow puts each operator of an artifact: `python tensorflow_placement.py FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from transload.models.artifact import read_artifact
from transload.serving.runtimes import tensorflow_session


def main(folder: Path) -> None:
    artifact = read_artifact(folder)
    inner = tf.compat.v1.Session(graph=tf.Graph(), config=tensorflow_session.session_config(tf, "cpu", 1))
    with inner.graph.as_default():
        options = tensorflow_session._callable_options(
            tensorflow_session._load(tf, inner, artifact)[tensorflow_session.SIGNATURE], artifact.signature
        )
    zeros = [np.zeros([2 if isinstance(a, str) else a for a in s.shape], s.dtype) for s in artifact.signature.inputs]
    nodes = tensorflow_session.placement(tf, inner, options, zeros)
    print(json.dumps([(node.op, node.device) for node in nodes]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
