"""moto's S3 server on 127.0.0.1 with an empty bucket, ended with its stdin: s3_server.py BUCKET prints its port."""

from __future__ import annotations

import os
import sys

import boto3
from moto.server import ThreadedMotoServer


def main(bucket: str) -> None:
    """Start the server, make the bucket, say where it is, and wait."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
    boto3.client("s3").create_bucket(Bucket=bucket)
    print(f"port={port}", flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main(sys.argv[1])
