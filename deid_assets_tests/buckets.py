"""An S3-compatible server on this machine, for tests: the protocol is real, the storage is its memory."""

import contextlib
import logging
from collections.abc import Iterator

import pytest

try:
    import boto3
    from moto.server import ThreadedMotoServer
except ImportError:
    boto3 = ThreadedMotoServer = None

needs_s3 = pytest.mark.skipif(
    ThreadedMotoServer is None, reason="moto, an S3-compatible server of the extra `test`, is missing"
)

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "a-key-of-tests",
    "AWS_SECRET_ACCESS_KEY": "a-secret-of-tests",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@contextlib.contextmanager
def s3_bucket() -> Iterator[str]:
    """An empty bucket; returns the end of a URL that says where it is: `s3://bucket/...` and this."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # each request would be a line
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        client = boto3.client(
            "s3", endpoint_url=f"http://{host}:{port}", region_name=CREDENTIALS["AWS_DEFAULT_REGION"],
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"], aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )  # fmt: skip
        client.create_bucket(Bucket="bucket")
        yield f"?endpoint_override={host}:{port}&scheme=http&region=us-east-1"
    finally:
        server.stop()
