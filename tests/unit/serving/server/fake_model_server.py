"""Speaks as much of tensorflow_model_server as the launching code uses: its flags, its folder layout, its protocol.

FAKE=dies ends at once, FAKE=mute listens nowhere; otherwise it serves a model of numpy after a moment.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser()
    for flag in ("port", "rest_api_port", "tensorflow_intra_op_parallelism", "tensorflow_inter_op_parallelism"):
        parser.add_argument(f"--{flag}", type=int, required=True)
    for flag in ("model_name", "model_base_path"):
        parser.add_argument(f"--{flag}", required=True)
    given = parser.parse_args()
    print("fake server", given, flush=True)
    if os.environ.get("FAKE") == "dies":
        sys.exit(3)
    if os.environ.get("FAKE") == "mute":
        time.sleep(60)
    versions = [path.name for path in Path(given.model_base_path).iterdir()]
    assert versions == ["1"], versions
    assert (Path(given.model_base_path) / "1" / "saved_model.pb").is_file()

    spec = importlib.util.spec_from_file_location("fixtures", Path(__file__).with_name("conftest.py"))
    assert spec is not None
    assert spec.loader is not None
    fixtures = importlib.util.module_from_spec(spec)
    sys.modules["fixtures"] = fixtures
    spec.loader.exec_module(fixtures)
    from transload.serving.server import tfserving_grpc
    from transload.serving.server.http_server import HttpServer
    from transload.serving.server.repository.model_repository import hold_session
    from transload.serving.server.stop_signal import stop_on_signals

    with stop_on_signals() as stop:  # before it answers: the signal may come as soon as it does
        model = hold_session(given.model_name, fixtures.NumpySession(fixtures.TWO))
        rest = HttpServer(model, "127.0.0.1", given.rest_api_port)
        server = tfserving_grpc.GrpcServer(model, "127.0.0.1", given.port)
        stop.wait()
    server.stop(1).wait()
    rest.close()
    print("fake server stopped", flush=True)


if __name__ == "__main__":
    main()
