"""Calls of operations without a socket, and a request that creates a job."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leadline.records.manifest import Manifest
from leadline.serve.app import ApiService
from leadline.serve.job_queue import JobQueue, ServerSettings
from leadline.serve.signature import SignedRequest
from leadline.serve.topics import Topics
from leadline.serve.wire import JSON

HEADERS = {"host": "127.0.0.1:5156", "content-type": JSON}
TARGETS = {"email": "mailtos://bob:$PASSWORD@smtp.example.org?to={address}"}
IMAGE = "503895931360.dkr.ecr.us-east-1.amazonaws.com/sagemaker-debugger-rules:latest"
CREATE: dict[str, Any] = {
    "TrainingJobName": "first",
    "RoleArn": "arn:aws:iam::123456789012:role/Role",
    "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
    "ResourceConfig": {"InstanceCount": 1, "InstanceType": "ml.m5.xlarge", "VolumeSizeInGB": 30},
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    "HyperParameters": {"sagemaker_program": '"train.py"', "sagemaker_submit_directory": '"s3://b/s.tar.gz"'},
    "InputDataConfig": [
        {
            "ChannelName": "train",
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/data"}},
        }
    ],
    "DebugHookConfig": {
        "S3OutputPath": "s3://bucket/debug",
        "CollectionConfigurations": [
            {"CollectionName": "gradients", "CollectionParameters": {"save_interval": "10"}},
        ],
    },
    "DebugRuleConfigurations": [
        {
            "RuleConfigurationName": "VanishingGradient",
            "RuleEvaluatorImage": IMAGE,
            "RuleParameters": {"rule_to_invoke": "VanishingGradient", "threshold": "0.001"},
        }
    ],
    "ProfilerConfig": {"S3OutputPath": "s3://bucket/profile", "ProfilingIntervalInMilliseconds": 500},
    "ProfilerRuleConfigurations": [
        {
            "RuleConfigurationName": "ProfilerReport",
            "RuleEvaluatorImage": IMAGE,
            "RuleParameters": {"rule_to_invoke": "ProfilerReport"},
        }
    ],
    "Tags": [{"Key": "team", "Value": "vision"}],
}
MANIFEST = Manifest("first", "/nowhere/first", (), 0, "")


@dataclass
class Caller:
    """Calls operations as a client does, without a socket."""

    service: ApiService
    queue: JobQueue
    topics: Topics

    def answer(self, target: str, body: bytes) -> tuple[int, Any]:
        headers = HEADERS | {"x-amz-target": target}
        answer = self.service.answer(SignedRequest("POST", "/", headers, body))
        return answer.status, json.loads(answer.body or b"{}")

    def call(self, operation: str, **request: Any) -> Any:
        status, document = self.answer(f"SageMaker.{operation}", json.dumps(request).encode())
        assert status == 200, document
        return document

    def error(self, operation: str, **request: Any) -> tuple[str, str]:
        status, document = self.answer(f"SageMaker.{operation}", json.dumps(request).encode())
        assert status == 400, document
        return document["__type"], document["message"]


def server_settings(folder: Path, slots: int = 0) -> ServerSettings:
    return ServerSettings(str(folder), slots, "us-east-1", "000000000000", TARGETS)
