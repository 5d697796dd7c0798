"""Requests that botocore's model of the service allows, and the service refuses: by the path of the member."""

from __future__ import annotations

import re
from typing import Any

import pytest
from api_caller import CREATE, IMAGE, Caller

PATH = "Value '.*' at '{}' failed to satisfy constraint: .*{}"
CHANNEL = CREATE["InputDataConfig"][0]


def rule(kind: str, image: str = IMAGE, **parameters: str) -> dict[str, Any]:
    given = {"rule_to_invoke": kind, **parameters}
    return {"RuleConfigurationName": kind, "RuleEvaluatorImage": image, "RuleParameters": given}


def hook(**members: Any) -> dict[str, Any]:
    return {"DebugHookConfig": {"S3OutputPath": "s3://bucket/debug", **members}}


def collection(name: str, **parameters: str) -> dict[str, Any]:
    return hook(CollectionConfigurations=[{"CollectionName": name, "CollectionParameters": parameters}])


def window(name: str, table: str) -> dict[str, Any]:
    return {"ProfilerConfig": {"S3OutputPath": "s3://bucket/p", "ProfilingParameters": {name: table}}}


def debug(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"DebugRuleConfigurations": list(rules)}


COLLECTION = "debugHookConfig.collectionConfigurations.1.member.collectionParameters"
RULE = "debugRuleConfigurations.1.member.ruleParameters"
ACTION = f"{RULE}.action_json.member"
WINDOW = "profilerConfig.profilingParameters.DetailedProfilingConfig.member"
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (
        {"ResourceConfig": CREATE["ResourceConfig"] | {"InstanceCount": 0}},
        "resourceConfig.instanceCount",
        "greater than or equal to 1",
    ),
    ({"InputDataConfig": [CHANNEL, CHANNEL]}, "inputDataConfig.2.member.channelName", "unique"),
    ({"Tags": [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]}, "tags.2.member.key", "unique"),
    (
        {
            "EnableManagedSpotTraining": True,
            "StoppingCondition": {"MaxRuntimeInSeconds": 9, "MaxWaitTimeInSeconds": 8},
        },
        "stoppingCondition.maxWaitTimeInSeconds",
        "MaxRuntimeInSeconds",
    ),
    (
        {"ProfilerConfig": {"S3OutputPath": "s3://bucket/p", "ProfilingIntervalInMilliseconds": 7}},
        "profilerConfig.profilingIntervalInMilliseconds",
        "100, 200, 500, 1000, 5000, 60000",
    ),
    (window("DetaildProfilingConfig", "{}"), "profilerConfig.profilingParameters", "did you mean Detailed"),
    (window("DetailedProfilingConfig", '{"StartStep": "x"}'), WINDOW, "StartStep must be a whole number"),
    (window("DetailedProfilingConfig", '{"StartStep": -1}'), WINDOW, "StartStep must be a whole number"),
    (window("DetailedProfilingConfig", '{"NumSteps": 0}'), WINDOW, "NumSteps must be a whole number from 1 to 100"),
    (
        window("DetailedProfilingConfig", '{"StartTimeInSecSinceEpoch": 1600000000, "Duration": "long"}'),
        WINDOW,
        "DurationInSeconds must be above 0",
    ),
    (window("DetailedProfilingConfig", '{"StartStepp": 5}'), WINDOW, "did you mean 'StartStep'"),
    (
        window("PythonProfilingConfig", '{"cProfileTimer": "sun"}'),
        "profilerConfig.profilingParameters.PythonProfilingConfig.member",
        "cProfileTimer must be one of",
    ),
    (hook(HookParameters={"save_intervall": "5"}), "debugHookConfig.hookParameters", "did you mean save_interval"),
    (hook(HookParameters={"include_workers": "two"}), "debugHookConfig.hookParameters.include_workers.member", "one"),
    (collection("losses", save_intervall="5"), COLLECTION, "did you mean save_interval"),
    (collection("losses", **{"training.save_interval": "5"}), COLLECTION, "did you mean train.save_interval"),
    (collection("losses", save_interval="x"), COLLECTION, "save_interval must be a number"),
    (debug(rule("ExplodingTensor", action_json='{"name": "page"}')), ACTION, "stoptraining, email, sms"),
    (debug(rule("ExplodingTensor", action_json='{"name": "email"}')), ACTION, "needs an endpoint"),
    (debug(rule("ExplodingTensor", action_json='{"name":')), ACTION, "not valid JSON"),
    (debug(rule("ExplodingTenser")), f"{RULE}.rule_to_invoke.member", "did you mean ExplodingTensor"),
    (debug(rule("ExplodingTensor", only_nam="1")), RULE, "did you mean only_nan"),
    (debug(rule("VanishingGradient", threshold="low")), RULE, "threshold must be a number"),
    (
        debug(rule("SimilarAcrossRuns", other_trial_0="s3://b/d/none/debug-output")),
        f"{RULE}.other_trial_0.member",
        "no training job none",
    ),
    (
        {"ProfilerRuleConfigurations": [rule("DeadRelu")]},
        "profilerRuleConfigurations.1.member.ruleParameters.rule_to_invoke.member",
        "DebugRuleConfigurations",
    ),
    (
        debug(rule("DeadRelu"), rule("DeadRelu")),
        "debugRuleConfigurations.2.member.ruleConfigurationName",
        "unique",
    ),
]


@pytest.mark.parametrize(("change", "path", "constraint"), REFUSED)
def test_a_request_is_refused_by_the_name_of_the_member(
    caller: Caller, change: dict[str, Any], path: str, constraint: str
) -> None:
    code, message = caller.error("CreateTrainingJob", **CREATE | change)
    assert code == "ValidationException"
    assert re.fullmatch(
        f"1 validation error detected: {PATH.format(re.escape(path), re.escape(constraint))}.*", message
    )
    assert "--" not in message
    assert caller.queue.jobs() == []


def test_an_update_is_refused_by_the_name_of_the_member(caller: Caller) -> None:
    caller.call("CreateTrainingJob", **CREATE)
    for change, path in (
        ({"ProfilerRuleConfigurations": CREATE["ProfilerRuleConfigurations"]}, "1.member.ruleConfigurationName"),
        ({"ProfilerRuleConfigurations": [rule("DeadRelu")]}, "1.member.ruleParameters.rule_to_invoke.member"),
        ({"ProfilerConfig": {"ProfilingIntervalInMilliseconds": 7}}, "profilerConfig.profilingIntervalInMilliseconds"),
    ):
        code, message = caller.error("UpdateTrainingJob", TrainingJobName="first", **change)
        assert (code, f"{path}' failed" in message, "--" in message) == ("ValidationException", True, False), message


def test_several_errors_are_named_at_once(caller: Caller) -> None:
    change = collection("losses", save_intervall="5") | {"InputDataConfig": [CHANNEL, CHANNEL]}
    assert caller.error("CreateTrainingJob", **CREATE | change)[1].startswith("2 validation errors detected: ")


def test_what_the_sdk_and_the_reference_write_is_accepted(caller: Caller) -> None:
    parameters = {
        "DataLoaderProfilingConfig": '{"StartStep": "7", "NumSteps": 1, "MetricsRegex": ".*", }',
        "PythonProfilingConfig": '{"StartStep": 9, "NumSteps": 3, "cProfileTimer": "default", }',
        "HorovodProfilingConfig": '{"StartStep": 13, "NumSteps": 1, }',
        "RotateMaxFileSizeInBytes": "10485760",
        "LocalPath": "/opt/ml/output/profiler",
    }
    profiler = {"ProfilerConfig": {"S3OutputPath": "s3://bucket/p", "ProfilingParameters": parameters}}
    given = {
        "save_interval": "100",
        "train.save_steps": "1,2",
        "include_workers": "all",
        "reductions": "mean,abs_l2_norm",
    }
    mine = [{"CollectionName": "mine"}, {"CollectionName": "losses"}, {"CollectionName": "losses"}]
    caller.call("CreateTrainingJob", **CREATE | profiler | hook(HookParameters=given, CollectionConfigurations=mine))
