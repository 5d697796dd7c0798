"""A thousand malformed requests: each is answered with an error that clients of AWS know by its type."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from api_caller import CREATE, Caller
from botocore.model import Shape

from leadline.serve.service_model import service_model

CODES = {
    "ValidationException",
    "SerializationException",
    "UnknownOperationException",
    "ResourceInUse",
    "ResourceLimitExceeded",
    "ResourceNotFoundException",
    "InvalidParameterException",
}
ARN = "arn:aws:sagemaker:us-east-1:000000000000:training-job/first"
LOGS = {"logGroupName": "/aws/sagemaker/TrainingJobs", "logStreamName": "first/algo-1-1"}
REQUESTS: dict[str, dict[str, Any]] = {
    "SageMaker.CreateTrainingJob": CREATE,
    "SageMaker.DescribeTrainingJob": {"TrainingJobName": "first"},
    "SageMaker.ListTrainingJobs": {"MaxResults": 5, "SortBy": "Name", "CreationTimeAfter": 1.5, "NextToken": "0"},
    "SageMaker.UpdateTrainingJob": {
        "TrainingJobName": "first",
        "ProfilerConfig": {"ProfilingIntervalInMilliseconds": 500, "ProfilingParameters": {"a": "b"}},
        "ProfilerRuleConfigurations": CREATE["ProfilerRuleConfigurations"],
    },
    "SageMaker.StopTrainingJob": {"TrainingJobName": "first"},
    "SageMaker.DeleteTrainingJob": {"TrainingJobName": "first"},
    "SageMaker.DescribeProcessingJob": {"ProcessingJobName": "first-VanishingGradient-00000000"},
    "SageMaker.ListProcessingJobs": {"StatusEquals": "InProgress", "NameContains": "x"},
    "SageMaker.StopProcessingJob": {"ProcessingJobName": "first-VanishingGradient-00000000"},
    "SageMaker.AddTags": {"ResourceArn": ARN, "Tags": [{"Key": "a", "Value": "b"}]},
    "SageMaker.ListTags": {"ResourceArn": ARN, "NextToken": "x"},
    "Logs_20140328.DescribeLogStreams": {"logGroupName": LOGS["logGroupName"], "limit": 10},
    "Logs_20140328.GetLogEvents": LOGS | {"nextToken": "f/0", "limit": 100, "startTime": 0},
}
WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1 << 70,
    1e308,
    "",
    " ",
    "x" * 5000,
    "bad_name!",
    "-",
    "\udc80",
    "\0",
    "file:///etc/passwd",
    "../..",
    "e\u0301",
    [],
    {},
    [None],
    {"": ""},
    [[[]]],
    {"Key": {"Key": 1}},
)
BODIES = (
    b"",
    b"[]",
    b"null",
    b"NaN",
    b'"x"',
    b"{",
    b"\xff\xfe",
    b'{"TrainingJobName": NaN}',
    b'{"TrainingJobName": "a\\u0000"}',
    b"[" * 100_000,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each part of a request."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def shape_at(shape: Shape, path: tuple[Any, ...]) -> Any:
    for key in path:
        kind = shape.type_name
        shape = shape.members[key] if kind == "structure" else shape.member if kind == "list" else shape.value
    return shape


def mutated(source: random.Random, target: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return a request with one to three changes, each a violation of the model more often than not."""
    request = copy.deepcopy(request)
    for _ in range(source.randint(1, 3)):
        everywhere = list(places(request))
        if not everywhere:
            return request
        *parents, key = source.choice(everywhere)
        holder: Any = request
        for parent in parents:
            holder = holder[parent]
        match source.randrange(5):
            case 0 if isinstance(holder, dict):
                holder.pop(key, None)
            case 1 if isinstance(holder, dict):
                holder[source.choice(("Unknown", "trainingJobName", "\u00e9"))] = copy.deepcopy(source.choice(WRONG))
            case 2 if isinstance(holder[key], list):
                holder[key] = holder[key] * 101
            case 3 if isinstance(holder[key], str):
                metadata = _metadata(target, (*parents, key))
                holder[key] = holder[key] * (metadata.get("max", 300) // max(len(holder[key]), 1) + 2)
            case _:
                holder[key] = copy.deepcopy(source.choice(WRONG))
    return request


def _metadata(target: str, path: tuple[Any, ...]) -> dict[str, Any]:
    prefix, name = target.split(".")
    model = service_model({"SageMaker": "sagemaker", "Logs_20140328": "logs"}[prefix])
    try:
        return dict(shape_at(model.operation_model(name).input_shape, path).metadata)
    except (KeyError, AttributeError):  # an earlier change has made it a part that the model does not have
        return {}


def test_a_thousand_mutated_requests_get_typed_errors(caller: Caller) -> None:
    source, refused = random.Random(20), 0
    targets = list(REQUESTS)
    for _ in range(1000):
        target = source.choice([*targets, targets[0], targets[0]])
        body = json.dumps(mutated(source, target, REQUESTS[target])).encode()
        status, document = caller.answer(target, body)
        assert status in (200, 400), (target, body[:500])
        if status == 400:
            refused += 1
            assert document["__type"] in CODES, document
            assert document["message"]
    assert refused > 800


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("target", REQUESTS)
def test_bodies_that_are_no_request(caller: Caller, target: str, body: bytes) -> None:
    status, document = caller.answer(target, body)
    if status == 200:  # a List operation without filters
        assert body == b""
        assert target.partition(".List")[1]
    else:
        assert (status, document["__type"] in CODES) == (400, True), document


@pytest.mark.parametrize(
    "target", ["", "SageMaker.", "SageMaker.CreateModel", "SageMaker.Nothing", "DynamoDB_20120810.PutItem", "x" * 9000]
)
def test_unknown_operations(caller: Caller, target: str) -> None:
    status, document = caller.answer(target, b"{}")
    code = document["__type"]
    assert (status, code in ("UnknownOperationException", "ValidationException")) == (400, True)
