"""S3 on this machine: moto's server with an empty bucket, which this process and its children are configured for."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

BUCKET = "runs"


@contextmanager
def serve() -> Iterator[str]:
    """Serve an empty bucket; yields its URI."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        os.environ |= {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": "http://{}:{}".format(*server.get_host_and_port()),
        }
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield f"s3://{BUCKET}"
    finally:
        server.stop()
