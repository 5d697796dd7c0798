"""The operations without running jobs; their answers are parsed by botocore, as clients do it."""

from __future__ import annotations

import itertools
import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode

import pytest
from api_caller import CREATE, HEADERS, IMAGE, Caller
from botocore.parsers import create_parser
from starlette.testclient import TestClient

from leadline.serve.app import create_app
from leadline.serve.run_configuration import run_config
from leadline.serve.service_model import service_model
from leadline.serve.signature import SignedRequest
from leadline.serve.training_job import JobProgress, StatusTransition
from leadline.testing.runs import RunWriter

ARN = "arn:aws:sagemaker:us-east-1:000000000000:training-job/first"
ROLE = "arn:aws:iam::000000000000:role/MyRole"


def parsed(service: str, operation: str, body: bytes, protocol: str) -> Any:
    """Return an answer as botocore gives it to a client."""
    shape = service_model(service).operation_model(operation).output_shape
    return create_parser(protocol).parse({"status_code": 200, "headers": {}, "body": body}, shape)


def query(caller: Caller, **fields: str) -> tuple[int, bytes]:
    headers = {"host": "127.0.0.1", "content-type": "application/x-www-form-urlencoded; charset=utf-8"}
    answer = caller.service.answer(SignedRequest("POST", "/", headers, urlencode(fields).encode()))
    return answer.status, answer.body


def end(caller: Caller, name: str, status: str = "Completed") -> None:
    """Let a job end, as if its process had."""
    job = caller.queue.find(name)
    assert job is not None
    transitions = tuple(
        StatusTransition(status, job.created_ns + second * 10**9, "")
        for second, status in enumerate(("Starting", "Downloading", "Training", "Uploading", status), 1)
    )
    caller.queue.folder(job).write_progress(JobProgress(transitions, status))
    caller.queue.advance()


def test_a_new_job_is_described_with_everything_that_it_was_given(caller: Caller) -> None:
    assert caller.call("CreateTrainingJob", **CREATE) == {"TrainingJobArn": ARN}
    answer = caller.call("DescribeTrainingJob", TrainingJobName="first")
    given = {name: value for name, value in CREATE.items() if name != "Tags"}
    given["OutputDataConfig"] = given["OutputDataConfig"] | {"KmsKeyId": ""}
    for member in ("DebugRuleConfigurations", "ProfilerRuleConfigurations"):
        given[member] = [{**entry, "VolumeSizeInGB": 0} for entry in given[member]]
    assert {name: answer[name] for name in given} == given
    output = service_model("sagemaker").operation_model("DescribeTrainingJob").output_shape
    assert set(output.required_members) <= set(answer)
    assert set(answer) <= set(output.members)
    assert "Tags" not in answer
    assert answer["ModelArtifacts"] == {"S3ModelArtifacts": "s3://bucket/out/first/output/model.tar.gz"}
    assert (answer["TrainingJobStatus"], answer["SecondaryStatus"]) == ("InProgress", "Pending")
    (row,) = answer["DebugRuleEvaluationStatuses"]
    assert row["RuleEvaluationStatus"] == "InProgress"
    assert row["RuleEvaluationJobArn"].startswith(
        "arn:aws:sagemaker:us-east-1:000000000000:processing-job/first-vanishinggradient-"
    )


def test_what_clients_cannot_do_without_is_there_when_it_was_not_given(caller: Caller) -> None:
    minimal = {name: CREATE[name] for name in ("TrainingJobName", "RoleArn", "OutputDataConfig", "HyperParameters")}
    caller.call("CreateTrainingJob", **minimal)
    answer = caller.call("DescribeTrainingJob", TrainingJobName="first")
    assert answer["ResourceConfig"]["InstanceCount"] == 1
    assert answer["StoppingCondition"]["MaxRuntimeInSeconds"] == 86_400
    assert answer["ProfilerConfig"] == {"DisableProfiler": True}
    assert answer["ProfilingStatus"] == "Disabled"


def test_times_and_transitions_of_a_job_that_has_ended(caller: Caller) -> None:
    caller.call("CreateTrainingJob", **CREATE)
    end(caller, "first")
    body = json.dumps(caller.call("DescribeTrainingJob", TrainingJobName="first")).encode()
    answer = parsed("sagemaker", "DescribeTrainingJob", body, "json")
    assert answer["TrainingJobStatus"] == "Completed"
    assert answer["TrainingTimeInSeconds"] == 3
    assert answer["TrainingEndTime"] > answer["TrainingStartTime"] > answer["CreationTime"]
    transitions = answer["SecondaryStatusTransitions"]
    assert [row["Status"] for row in transitions] == [
        *("Pending", "Starting", "Downloading", "Training", "Uploading", "Completed")
    ]
    for row, following in itertools.pairwise(transitions):
        assert row["EndTime"] == following["StartTime"]


def test_refused_jobs(caller: Caller) -> None:
    caller.call("CreateTrainingJob", **CREATE)
    assert caller.error("CreateTrainingJob", **CREATE)[0] == "ResourceInUse"
    second = CREATE | {"TrainingJobName": "second"}
    two = second | {"ResourceConfig": CREATE["ResourceConfig"] | {"InstanceCount": 17}}
    assert caller.error("CreateTrainingJob", **two)[0] == "ResourceLimitExceeded"
    for change, message in (
        ({"HyperParameters": {"lr": "0.1"}}, "there is no program"),
        ({"OutputDataConfig": {"S3OutputPath": "https://bucket/x"}}, "OutputDataConfig.S3OutputPath must begin with"),
        ({"DebugRuleConfigurations": [_rule("NoSuchRule")]}, "there is no such rule"),
        (
            {"DebugRuleConfigurations": [_rule("VanishingGradient", limit="3")]},
            "no such parameter of vanishing_gradient",
        ),
        ({"DebugRuleConfigurations": [_rule("VanishingGradient", threshold="low")]}, "threshold must be a number"),
        ({"DebugRuleConfigurations": [_rule("VanishingGradient"), _rule("VanishingGradient")]}, "must be unique"),
    ):
        code, text = caller.error("CreateTrainingJob", **second | change)
        assert (code, message in text) == ("ValidationException", True), text
    assert [job.name for job in caller.queue.jobs()] == ["first"]


def test_a_rule_compares_with_the_run_of_another_job(caller: Caller) -> None:
    other = _rule("SimilarAcrossRuns", other_trial_0="s3://bucket/debug/before/debug-output")
    request = CREATE | {"DebugRuleConfigurations": [other]}
    code, message = caller.error("CreateTrainingJob", **request)
    assert (code, "before" in message) == ("ValidationException", True)
    RunWriter(Path(caller.queue.settings.folder) / "runs" / "before").end()
    caller.call("CreateTrainingJob", **request)


def _rule(kind: str, **parameters: str) -> dict[str, Any]:
    given = {"rule_to_invoke": kind} | parameters
    return {"RuleConfigurationName": "rule", "RuleEvaluatorImage": IMAGE, "RuleParameters": given}


@pytest.mark.parametrize(
    "operation", ["DescribeTrainingJob", "UpdateTrainingJob", "StopTrainingJob", "DeleteTrainingJob"]
)
def test_unknown_jobs(caller: Caller, operation: str) -> None:
    found = caller.error(operation, TrainingJobName="nothing")
    assert found == ("ValidationException", "Requested resource not found.")


def test_stopping_and_deleting(caller: Caller) -> None:
    caller.call("CreateTrainingJob", **CREATE)
    assert caller.error("DeleteTrainingJob", TrainingJobName="first")[0] == "ResourceInUse"
    assert caller.call("StopTrainingJob", TrainingJobName="first") == {}
    assert caller.call("DescribeTrainingJob", TrainingJobName="first")["TrainingJobStatus"] == "Stopped"
    assert caller.error("StopTrainingJob", TrainingJobName="first")[0] == "ValidationException"
    caller.call("DeleteTrainingJob", TrainingJobName="first")
    assert caller.error("DescribeTrainingJob", TrainingJobName="first")[0] == "ValidationException"


def test_the_profiling_of_a_job_that_waits_is_changed(caller: Caller) -> None:
    caller.call("CreateTrainingJob", **CREATE)
    more = {**_rule("StepOutlier"), "RuleConfigurationName": "more"}
    config = {"DisableProfiler": False, "ProfilingIntervalInMilliseconds": 1000}
    caller.call("UpdateTrainingJob", TrainingJobName="first", ProfilerConfig=config, ProfilerRuleConfigurations=[more])
    answer = caller.call("DescribeTrainingJob", TrainingJobName="first")
    assert answer["ProfilerConfig"] == CREATE["ProfilerConfig"] | config
    assert [row["RuleConfigurationName"] for row in answer["ProfilerRuleEvaluationStatuses"]] == [
        *("ProfilerReport", "more")
    ]
    job = caller.queue.find("first")
    assert job is not None
    assert caller.queue.folder(job).specification().request == job.request
    off = {"DisableProfiler": True}
    caller.call("UpdateTrainingJob", TrainingJobName="first", ProfilerConfig=off)
    answer = caller.call("DescribeTrainingJob", TrainingJobName="first")
    assert answer["ProfilingStatus"] == "Disabled"
    assert {row["RuleEvaluationStatus"] for row in answer["ProfilerRuleEvaluationStatuses"]} == {"Stopped"}


def test_profiler_rules_of_a_job_without_profiling_are_not_evaluated(caller: Caller) -> None:
    caller.call("CreateTrainingJob", **CREATE | {"ProfilerConfig": {"DisableProfiler": True}})
    answer = caller.call("DescribeTrainingJob", TrainingJobName="first")
    rows = [*answer["DebugRuleEvaluationStatuses"], *answer["ProfilerRuleEvaluationStatuses"]]
    assert {row["RuleConfigurationName"]: row["RuleEvaluationStatus"] for row in rows} == {
        "VanishingGradient": "InProgress",
        "ProfilerReport": "Stopped",
    }
    job = caller.queue.find("first")
    assert job is not None
    assert [spec.alias for spec in run_config(job.request).rules] == ["VanishingGradient"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ProfilerConfig": {"S3OutputPath": "s3://other/path"}}, "cannot be changed"),
        ({"ProfilerConfig": {"ProfilingIntervalInMilliseconds": 7}}, "enum value set: [100, 200, 500"),
        ({"ProfilerRuleConfigurations": CREATE["ProfilerRuleConfigurations"]}, "must be unique"),
        ({"RemoteDebugConfig": {"EnableRemoteDebug": True}}, "cannot change RemoteDebugConfig"),
    ],
)
def test_refused_updates(caller: Caller, change: dict[str, Any], message: str) -> None:
    caller.call("CreateTrainingJob", **CREATE)
    code, text = caller.error("UpdateTrainingJob", TrainingJobName="first", **change)
    assert (code, message in text) == ("ValidationException", True), text
    end(caller, "first")
    assert "in status Completed" in caller.error("UpdateTrainingJob", TrainingJobName="first")[1]


def test_lists_are_filtered_ordered_and_paged(caller: Caller) -> None:
    for name in ("b-1", "a-1", "a-2"):
        caller.call("CreateTrainingJob", **CREATE | {"TrainingJobName": name})
    caller.call("StopTrainingJob", TrainingJobName="a-2")

    def names(**request: Any) -> list[str]:
        found: list[str] = []
        while True:
            answer = caller.call("ListTrainingJobs", **request)
            found += [row["TrainingJobName"] for row in answer["TrainingJobSummaries"]]
            if "NextToken" not in answer:
                return found
            request["NextToken"] = answer["NextToken"]

    assert names() == ["a-2", "a-1", "b-1"]
    assert names(MaxResults=1, SortBy="Name", SortOrder="Ascending") == ["a-1", "a-2", "b-1"]
    assert names(NameContains="a-", StatusEquals="InProgress") == ["a-1"]
    first = caller.queue.find("b-1")
    assert first is not None
    assert names(CreationTimeAfter=first.created_ns / 1e9) == ["a-2", "a-1"]
    assert names(CreationTimeBefore=first.created_ns / 1e9) == []


def test_a_description_repeats_no_secret_and_the_job_gets_it(caller: Caller) -> None:
    given = {**CREATE["HyperParameters"], "hub_token": '"x1y2"', "lr": "0.1"}
    environment = {"WANDB_API_KEY": "x1y2", "STAGE": "test"}
    caller.call("CreateTrainingJob", **CREATE | {"HyperParameters": given, "Environment": environment})
    answer = caller.call("DescribeTrainingJob", TrainingJobName="first")
    assert answer["HyperParameters"] == given | {"hub_token": '"****"'}
    assert answer["Environment"] == {"WANDB_API_KEY": "****", "STAGE": "test"}
    job = caller.queue.find("first")
    assert job is not None
    assert (job.request["HyperParameters"], job.request["Environment"]) == (given, environment)


def test_tags(caller: Caller) -> None:
    caller.call("CreateTrainingJob", **CREATE)
    caller.call("AddTags", ResourceArn=ARN, Tags=[{"Key": "stage", "Value": "test"}, {"Key": "team", "Value": "nlp"}])
    tags = [{"Key": "team", "Value": "nlp"}, {"Key": "stage", "Value": "test"}]
    assert caller.call("ListTags", ResourceArn=ARN) == {"Tags": tags}
    assert caller.error("ListTags", ResourceArn=ARN + "x")[0] == "ValidationException"
    many = [{"Key": str(number), "Value": ""} for number in range(49)]
    assert "at most 50 tags" in caller.error("AddTags", ResourceArn=ARN, Tags=many)[1]


def test_the_processing_job_of_a_rule(caller: Caller) -> None:
    caller.call("CreateTrainingJob", **CREATE)
    rows = caller.call("DescribeTrainingJob", TrainingJobName="first")["DebugRuleEvaluationStatuses"]
    name = rows[0]["RuleEvaluationJobArn"].split("/")[-1]
    answer = caller.call("DescribeProcessingJob", ProcessingJobName=name)
    assert answer["ProcessingJobName"].lower() == name
    assert answer["ProcessingJobStatus"] == "InProgress"
    assert answer["TrainingJobArn"] == ARN
    assert answer["Environment"] == CREATE["DebugRuleConfigurations"][0]["RuleParameters"]
    output = service_model("sagemaker").operation_model("DescribeProcessingJob").output_shape
    assert set(output.required_members) <= set(answer) <= set(output.members)
    found = caller.call("ListProcessingJobs", NameContains="profilerreport", SortBy="Status")
    assert [row["ProcessingJobStatus"] for row in found["ProcessingJobSummaries"]] == ["InProgress"]
    assert "not started" in caller.error("StopProcessingJob", ProcessingJobName=name)[1]
    end(caller, "first")
    assert caller.call("DescribeProcessingJob", ProcessingJobName=name)["ProcessingJobStatus"] == "Failed"


def test_log_streams_and_events(caller: Caller) -> None:
    caller.call("CreateTrainingJob", **CREATE)
    group = {"logGroupName": "/aws/sagemaker/TrainingJobs"}
    assert logs(caller, "DescribeLogStreams", **group) == {"logStreams": []}
    end(caller, "first")
    job = caller.queue.find("first")
    assert job is not None
    Path(caller.queue.folder(job).log).write_bytes(b"one\ntwo \xff\nunfinished")
    (stream,) = logs(caller, "DescribeLogStreams", **group, logStreamNamePrefix="first/")["logStreams"]
    assert (
        stream["logStreamName"] == f"first/algo-1-{job.created_ns // 10**6}"
    )  # also before the job process records more
    request = group | {"logStreamName": stream["logStreamName"], "startFromHead": True}
    first = logs(caller, "GetLogEvents", **request, limit=1)
    assert [event["message"] for event in first["events"]] == ["one"]
    second = logs(caller, "GetLogEvents", **request, nextToken=first["nextForwardToken"])
    assert [event["message"] for event in second["events"]] == ["two \ufffd"]
    third = logs(caller, "GetLogEvents", **request, nextToken=second["nextForwardToken"])
    assert (third["events"], third["nextForwardToken"]) == ([], second["nextForwardToken"])
    at = first["events"][0]["timestamp"]
    assert at == os.stat(caller.queue.folder(job).log).st_mtime_ns // 10**6
    late = logs(caller, "GetLogEvents", **request, startTime=at + 1)
    assert late["events"] == logs(caller, "GetLogEvents", **request, endTime=at)["events"] == []


def logs(caller: Caller, operation: str, **request: Any) -> Any:
    status, document = caller.answer(f"Logs_20140328.{operation}", json.dumps(request).encode())
    assert status == 200, document
    return document


def test_the_caller_is_an_assumed_role(caller: Caller) -> None:
    status, body = query(caller, Action="GetCallerIdentity", Version="2011-06-15")
    answer = parsed("sts", "GetCallerIdentity", body, "query")
    assert (status, answer["Account"]) == (200, "000000000000")
    assert ":assumed-role/" in answer["Arn"]


def test_a_role_that_sagemaker_may_assume(caller: Caller) -> None:
    status, body = query(caller, Action="GetRole", Version="2010-05-08", RoleName="MyRole")
    role = parsed("iam", "GetRole", body, "query")["Role"]
    assert (status, role["Arn"]) == (200, ROLE)
    (statement,) = json.loads(unquote(role["AssumeRolePolicyDocument"]))["Statement"]
    assert statement["Principal"] == {"Service": "sagemaker.amazonaws.com"}


def test_a_role_may_do_everything(caller: Caller) -> None:
    status, body = query(
        caller,
        Action="SimulatePrincipalPolicy",
        Version="2010-05-08",
        PolicySourceArn=ROLE,
        MaxItems="100",
        **{"ActionNames.member.1": "s3:PutObject", "ActionNames.member.2": "s3:GetObject"},
        **{"ResourceArns.member.1": "arn:aws:s3:::bucket/*"},
    )
    answer = parsed("iam", "SimulatePrincipalPolicy", body, "query")
    assert (status, answer["IsTruncated"]) == (200, False)
    assert answer["EvaluationResults"] == [
        {"EvalActionName": action, "EvalResourceName": "arn:aws:s3:::bucket/*", "EvalDecision": "allowed"}
        for action in ("s3:PutObject", "s3:GetObject")
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"Action": "SimulatePrincipalPolicy", "Version": "2010-05-08", "PolicySourceArn": ROLE},
        {"Action": "SimulatePrincipalPolicy", "Version": "2010-05-08", "ActionNames.member.x": "a"},
        {"Action": "SimulatePrincipalPolicy", "Version": "2010-05-08", f"ActionNames.member.{'9' * 5000}": "a"},
        {"Action": "SimulatePrincipalPolicy", "Version": "2010-05-08", "MaxItems": "9" * 5000},
        {"Action": "GetRole", "Version": "2010-05-08"},
        {"Action": "GetRole", "Version": "2010-05-08", "RoleName": "a b"},
        {"Action": "GetUser", "Version": "2010-05-08"},
        {"Action": "GetCallerIdentity", "Version": "1999-01-01"},
        {"Action": "GetCallerIdentity", "Version": "2011-06-15", "More": "\x00"},
    ],
)
def test_wrong_requests_of_the_query_protocol(caller: Caller, fields: dict[str, str]) -> None:
    status, body = query(caller, **fields)
    answer = create_parser("query").parse({"status_code": status, "headers": {}, "body": body}, None)
    assert status == 400
    refused = ("InvalidAction", "SerializationException", "ValidationException", "UnknownOperationException")
    assert answer["Error"]["Code"] in refused


def test_over_http_only_posts_of_a_limited_size_are_answered(caller: Caller) -> None:
    client = TestClient(create_app(caller.service), base_url="http://127.0.0.1:5156", raise_server_exceptions=True)
    headers = {"content-type": HEADERS["content-type"], "x-amz-target": "SageMaker.ListTrainingJobs"}
    answer = client.post("/", headers=headers, content=b"{}")
    assert answer.json() == {"TrainingJobSummaries": []}
    assert answer.headers["content-type"] == HEADERS["content-type"]
    assert client.get("/").status_code == 405
    assert client.post("/other", headers=headers, content=b"{}").status_code == 404
    assert client.post("/", headers=headers, content=b" " * (5 << 20)).status_code == 413


def test_the_state_of_a_rule_that_was_stopped_stays(caller: Caller) -> None:
    caller.call("CreateTrainingJob", **CREATE)
    job = caller.queue.find("first")
    assert job is not None
    caller.queue.change(replace(job, rules=tuple(replace(rule, status="Stopped") for rule in job.rules)))
    end(caller, "first")
    rows = caller.call("DescribeTrainingJob", TrainingJobName="first")
    assert rows["DebugRuleEvaluationStatuses"][0]["RuleEvaluationStatus"] == "Stopped"


def test_a_failing_disk_is_a_typed_error_and_not_the_end(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as changed:
        changed.setattr(caller.queue, "write_specification", fail)
        status, document = caller.answer("SageMaker.CreateTrainingJob", json.dumps(CREATE).encode())
        assert (status, document["__type"]) == (500, "InternalFailure")
    assert caller.queue.jobs() == []
    caller.call("CreateTrainingJob", **CREATE)
    has_ended, rounds = threading.Event(), []

    def fail_twice() -> None:
        rounds.append(0)
        if len(rounds) == 3:
            has_ended.set()
        else:
            fail()

    monkeypatch.setattr(caller.queue, "advance", fail_twice)
    monkeypatch.setattr("leadline.serve.app._POLL_SECONDS", 0.0)
    caller.service.follow(has_ended)
    assert len(rounds) == 3
