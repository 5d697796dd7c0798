"""AWS services emulated by moto, over real HTTP on loopback."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

REGION: Final = "eu-west-1"
CREDENTIALS: Final = {
    "AWS_ACCESS_KEY_ID": "AKIATEST",
    "AWS_SECRET_ACCESS_KEY": "verysecretkey",
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""Environment variables of an AWS user."""


@contextmanager
def amazon() -> Iterator[str]:
    """Start the server of moto; yields its address."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        address = "http://{}:{}".format(*server.get_host_and_port())
        urllib.request.urlopen(
            f"{address}/moto-api/reset", data=b"", timeout=60
        ).close()  # one server for the whole process
        yield address
    finally:
        server.stop()


@cache
def client(service: str, address: str) -> Any:
    """Return a boto3 client of the server, always the same one: to make one takes longer than its calls."""
    import boto3

    return boto3.client(
        service,
        endpoint_url=address,
        region_name=REGION,
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )


def make_queue(address: str, name: str) -> tuple[str, str]:
    """Create a queue; return its URL and ARN."""
    queues = client("sqs", address)
    url = queues.create_queue(QueueName=name)["QueueUrl"]
    arn = queues.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return str(url), str(arn)


def route_events(address: str, pattern: str, queue: str, bus: str = "default", name: str = "to-queue") -> None:
    """Create an EventBridge rule that sends matching events to a queue."""
    events = client("events", address)
    events.put_rule(Name=name, EventPattern=pattern, EventBusName=bus)
    events.put_targets(Rule=name, EventBusName=bus, Targets=[{"Id": "1", "Arn": queue}])


def received(address: str, queue: str) -> list[str]:
    """Return the bodies of the messages in a queue, oldest first."""
    queues, bodies = client("sqs", address), []
    while messages := queues.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
        for message in messages:
            bodies.append(message["Body"])
            queues.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return bodies
