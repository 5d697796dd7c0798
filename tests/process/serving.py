"""A server of ``leadline serve``, the S3 beside it, and jobs as notebooks create them with boto3."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from amazon import CREDENTIALS, REGION, client
from launching import LEADLINE, SCRIPTS, environment, wait_for

BUCKET: Final = "training-jobs"
IMAGE: Final = "685455198987.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-debugger-rules:latest"
ENDED: Final = ("Completed", "Failed", "Stopped")
LOOK_SECONDS: Final = 0.5
"""How long a reader of a running job waits before it looks again."""


def rule(kind: str, name: str = "", **parameters: str) -> dict[str, Any]:
    given = {"rule_to_invoke": kind, **parameters}
    return {"RuleConfigurationName": name or kind, "RuleEvaluatorImage": IMAGE, "RuleParameters": given}


class Server:
    """A process of ``leadline serve``."""

    def __init__(self, folder: Path, s3: str, *options: str, python: str = sys.executable, **changes: str) -> None:
        words = [
            python,
            *LEADLINE[1:],
            "serve",
            "--folder",
            str(folder),
            "--port",
            "0",
            "--region",
            REGION,
            "--s3-endpoint",
            s3,
        ]
        self.folder = folder
        self.process = subprocess.Popen(
            [*words, *options],
            cwd=folder.parent,
            env=environment(**CREDENTIALS, **changes),
            stdout=subprocess.PIPE,
            text=True,
            umask=0,  # its files are private whatever the mask
        )
        assert self.process.stdout is not None
        self.host = self.process.stdout.readline().split()[1]
        """The address without the token."""
        token = folder / "token"
        self.address = self.host if "--keys" in options else f"{self.host}/{token.read_text().strip()}"

    def client(self, service: str = "sagemaker") -> Any:
        return client(service, self.address)

    def kill(self) -> None:
        """Kill the server; its jobs continue."""
        self.process.kill()
        self.process.communicate()

    def end(self) -> None:
        """Kill the server, and let the jobs that a failed test has left stop."""
        self.kill()
        for folder in (self.folder / "jobs").iterdir():
            (folder / "stop").touch()


@dataclass(frozen=True)
class Store:
    """The S3 server."""

    address: str

    def keys(self, prefix: str) -> list[str]:
        pages = client("s3", self.address).get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]

    def read(self, key: str) -> bytes:
        return bytes(client("s3", self.address).get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def archive(self, key: str) -> dict[str, bytes]:
        with tarfile.open(fileobj=io.BytesIO(self.read(key))) as archive:
            members = [member for member in archive if member.isfile()]
            return {member.name.removeprefix("./"): archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]

    def put(self, key: str, content: str | bytes) -> None:
        body = content.encode() if isinstance(content, str) else content
        client("s3", self.address).put_object(Bucket=BUCKET, Key=key, Body=body)

    def put_source(self, key: str, scripts: Sequence[str]) -> None:
        source = io.BytesIO()
        with tarfile.open(fileobj=source, mode="w:gz") as archive:
            for name in scripts:
                archive.add(SCRIPTS / name, name)
        self.put(key, source.getvalue())

    def fetch(self, prefix: str, folder: Path) -> None:
        for key in self.keys(prefix):
            path = folder / key.removeprefix(prefix).lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.read(key))


@contextmanager
def s3_store(*scripts: str) -> Iterator[Store]:
    """Start moto's S3 with a bucket, in which the scripts are the source of the jobs."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        store = Store(f"http://127.0.0.1:{server.get_host_and_port()[1]}")
        reset = f"{store.address}/moto-api/reset"  # moto has one state in a process
        urllib.request.urlopen(reset, data=b"", timeout=60).close()
        s3 = client("s3", store.address)
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        store.put_source("code/sourcedir.tar.gz", scripts)
        yield store
    finally:
        server.stop()


def create(sagemaker: Any, name: str, program: str, hyperparameters: dict[str, str], **members: Any) -> None:
    """Create a job as the notebooks do that use boto3 only."""
    own = {
        "sagemaker_program": json.dumps(program),
        "sagemaker_submit_directory": json.dumps(f"s3://{BUCKET}/code/sourcedir.tar.gz"),
    }
    channel = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/data/train/"}}
    request: dict[str, Any] = {
        "TrainingJobName": name,
        "RoleArn": "arn:aws:iam::123456789012:role/SageMakerRole",
        "AlgorithmSpecification": {"TrainingImage": "pytorch-training:1.12", "TrainingInputMode": "File"},
        "InputDataConfig": [{"ChannelName": "train", "DataSource": channel}],
        "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/out"},
        "ResourceConfig": {"InstanceCount": 1, "InstanceType": "ml.m5.xlarge", "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        "HyperParameters": own | hyperparameters,
    }
    sagemaker.create_training_job(**request | members)


def ended(sagemaker: Any, name: str) -> dict[str, Any]:
    def describe() -> Any:
        answer = sagemaker.describe_training_job(TrainingJobName=name)
        return answer if answer["TrainingJobStatus"] in ENDED else None

    return dict(wait_for(describe, f"the end of {name}"))


def statuses(answer: dict[str, Any]) -> dict[str, str]:
    rows = [*answer["DebugRuleEvaluationStatuses"], *answer["ProfilerRuleEvaluationStatuses"]]
    return {row["RuleConfigurationName"]: row["RuleEvaluationStatus"] for row in rows}
