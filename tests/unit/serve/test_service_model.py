"""Validation against botocore's models, compared with botocore's own validator where that checks."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from api_caller import CREATE
from botocore.validate import ParamValidator

from leadline.serve.api_error import ApiError
from leadline.serve.service_model import service_model, validate

OPERATION = service_model("sagemaker").operation_model("CreateTrainingJob")


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the request with another value at a path; ``...``: without it."""
    request = copy.deepcopy(CREATE)
    *parents, key = [int(part) if part.isdecimal() else part for part in path.split(".")]
    holder: Any = request
    for parent in parents:
        holder = holder[parent]
    if value is ...:
        del holder[key]
    else:
        holder[key] = value
    return request


def error_of(request: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(ApiError) as caught:
        validate(OPERATION, request)
    return caught.value.code, str(caught.value)


def test_a_valid_request_is_accepted() -> None:
    validate(OPERATION, CREATE)


@pytest.mark.parametrize(
    ("path", "value", "constraint"),
    [
        ("TrainingJobName", "bad_name!", "pattern: [a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}"),
        ("TrainingJobName", "x" * 64, "length less than or equal to 63"),
        ("RoleArn", "role", "length greater than or equal to 20"),
        ("RoleArn", ..., "'roleArn' failed to satisfy constraint: Member must not be null"),
        ("OutputDataConfig.S3OutputPath", "file:///tmp", "pattern: (https|s3)://"),
        ("ResourceConfig.InstanceType", "ml.bogus", "'resourceConfig.instanceType' failed to satisfy constraint: Mem"),
        ("ResourceConfig.VolumeSizeInGB", -1, "greater than or equal to 0"),
        ("StoppingCondition.MaxRuntimeInSeconds", 0, "greater than or equal to 1"),
        ("StoppingCondition.MaxRuntimeInSeconds", 1 << 31, "less than or equal to 2147483647"),
        ("DebugHookConfig.S3OutputPath", ..., "'debugHookConfig.s3OutputPath'"),
        ("DebugHookConfig.HookParameters", {"a": "x" * 257}, "'debugHookConfig.hookParameters.a.member'"),
        ("DebugHookConfig.HookParameters", {str(number): "" for number in range(21)}, "less than or equal to 20"),
        ("DebugRuleConfigurations", [CREATE["DebugRuleConfigurations"][0]] * 21, "less than or equal to 20"),
        ("DebugRuleConfigurations.0.RuleConfigurationName", "", "debugRuleConfigurations.1.member.ruleConf"),
        ("Tags.0.Key", "smile \u263a", "pattern"),
        ("Unknown", 1, "there is no such member"),
    ],
)
def test_constraints_in_the_words_of_aws(path: str, value: Any, constraint: str) -> None:
    code, message = error_of(changed(path, value))
    assert code == "ValidationException"
    assert re.match(r"\d validation errors? detected: Value '", message)
    assert constraint in message


@pytest.mark.parametrize("value", [None, 3, 1.5, True, "text", [], {}, [{}]])
@pytest.mark.parametrize(
    "path",
    [
        "RoleArn",
        "ResourceConfig",
        "ResourceConfig.InstanceCount",
        "HyperParameters",
        "InputDataConfig",
        "EnableNetworkIsolation",
        "DebugHookConfig.CollectionConfigurations",
        "DebugRuleConfigurations.0",
    ],
)
def test_types_and_required_members_as_botocore_judges_them(path: str, value: Any) -> None:
    request = changed(path, value)
    has_errors = ParamValidator().validate(request, OPERATION.input_shape).has_errors()
    if not has_errors or value is None:  # a member that is null is one that is not given
        return
    assert error_of(request)[0] in ("ValidationException", "SerializationException")


def test_actions_may_be_longer_than_the_model_allows() -> None:
    parameters = {"rule_to_invoke": "VanishingGradient", "action_json": "x" * 400}
    validate(OPERATION, changed("DebugRuleConfigurations.0.RuleParameters", parameters))


def test_several_violations_are_reported_together() -> None:
    request = changed("RoleArn", ...)
    request["TrainingJobName"] = "a_b"
    assert error_of(request)[1].startswith("2 validation errors detected: ")
