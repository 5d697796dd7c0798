"""``leadline serve`` with boto3 as it is: jobs, their artifacts in moto's S3, restarts and signatures."""

from __future__ import annotations

import io
import json
import os
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from amazon import CREDENTIALS, REGION, client
from botocore.exceptions import ClientError
from endpoints import MailEndpoint, mail_endpoint
from launching import wait_for
from serving import BUCKET, Server, Store, create, ended, rule, s3_store, statuses

import leadline
from leadline.compat.smdebug import create_trial

pytestmark = pytest.mark.slow

CUSTOM_RULE: Final = """
from smdebug.rules.rule import Rule

class LossAbove(Rule):
    def __init__(self, base_trial, limit=10.0):
        super().__init__(base_trial)
        self.limit = float(limit)

    def set_required_tensors(self, step):
        for name in self.base_trial.tensor_names(collection="losses"):
            self.req_tensors.add(name, steps=[step])

    def invoke_at_step(self, step):
        print("step", step, flush=True)
        return any(tensor.value(step).item() > self.limit for tensor in self.req_tensors.get())
"""
STOP: Final = '[{\\"name\\": \\"stoptraining\\", \\"training_job_prefix\\": \\"exploding\\"}]'
MAIL: Final = '{\\"name\\": \\"email\\", \\"endpoint\\": \\"me@example.org\\"}'


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with s3_store("served.py", "served_plain.py") as store:
        lines = "\n".join(str(number / 10) for number in range(-10, 10))
        store.put("data/train/inputs.txt", lines)
        store.put("rules/loss_above.py", CUSTOM_RULE)
        store.put("data/trainer.txt", "of another name")
        for number in range(3):
            store.put(f"data/parts/{number}.txt", str(number))
        yield store


@pytest.fixture(scope="module")
def mail() -> Iterator[MailEndpoint]:
    with mail_endpoint() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def server(store: Store, mail: MailEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    target = f"mailto://127.0.0.1:{mail.port}?from=train@example.org&to={{address}}"
    options = ("--slots", "2", "--email", target)
    server = Server(tmp_path_factory.mktemp("serve") / "folder", store.address, *options)
    try:
        yield server
    finally:
        server.end()


@pytest.fixture(scope="module")
def jobs(server: Server) -> dict[str, dict[str, Any]]:
    """The descriptions of jobs of all kinds after their end."""
    sagemaker = server.client()
    debugging: dict[str, Any] = {
        "DebugHookConfig": {
            "S3OutputPath": f"s3://{BUCKET}/debug",
            "CollectionConfigurations": [
                {"CollectionName": "gradients", "CollectionParameters": {"save_interval": "20"}},
                {"CollectionName": "losses", "CollectionParameters": {"train.save_interval": "1"}},
            ],
        },
        "DebugRuleConfigurations": [rule("ExplodingTensor", collection_names="losses", action_json=STOP)],
        "ProfilerConfig": {"S3OutputPath": f"s3://{BUCKET}/profile", "ProfilingIntervalInMilliseconds": 500},
        "ProfilerRuleConfigurations": [rule("ProfilerReport")],
    }
    endless = {"steps": "100000000", "pause": "0.05"}
    source = f"s3://{BUCKET}/rules/loss_above.py"
    custom = [
        rule("LossAbove", "never", limit="1e6", source_s3_uri=source),
        rule("LossAbove", "fires", limit="0", source_s3_uri=source),
        rule("LossBelow", "unknown", source_s3_uri=source),
    ]
    rules = {"DebugRuleConfigurations": [*debugging["DebugRuleConfigurations"], *custom]}
    create(sagemaker, "healthy", "served.py", {"lr": "0.05"}, **debugging | rules)
    stopping = rule("LossAbove", "custom", limit="0", source_s3_uri=source, action_json=STOP)
    hook = {"DebugHookConfig": debugging["DebugHookConfig"], "DebugRuleConfigurations": [stopping]}
    create(sagemaker, "stopped-by-custom-rule", "served.py", {"lr": "0.05"} | endless, **hook)
    mailing = {**debugging, "DebugRuleConfigurations": [rule("ExplodingTensor", action_json=f"{STOP[:-1]}, {MAIL}]")]}
    create(sagemaker, "exploding", "served.py", {"lr": "1e20"} | endless, **mailing)
    variables = {"MINE": "yes", "SM_LOG_LEVEL": "10"}
    create(sagemaker, "shown", "served_plain.py", {"do": '"show"', "depth": "3"}, Environment=variables)
    create(sagemaker, "failing", "served_plain.py", {"do": '"fail"'})
    create(sagemaker, "late", "served_plain.py", {"do": "wait"}, StoppingCondition={"MaxRuntimeInSeconds": 1})
    create(sagemaker, "without-data", "served.py", {"lr": "0.1"}, InputDataConfig=_channel("nowhere", "no-bucket"))
    create(sagemaker, "two-hosts", "served.py", {"lr": "0.05"}, **_two_hosts(), **debugging)
    half = {"do": "algo-2", "place": json.dumps(str(server.folder / "half"))}
    create(sagemaker, "half-failing", "served_plain.py", half, ResourceConfig=_two_hosts()["ResourceConfig"])
    names = ("healthy", "stopped-by-custom-rule", "exploding", "shown", "failing", "late", "without-data")
    names += ("two-hosts", "half-failing")
    return {name: ended(sagemaker, name) for name in names}


def _channel(name: str, bucket: str) -> list[dict[str, Any]]:
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"s3://{bucket}/x"}}
    return [{"ChannelName": name, "DataSource": source}]


def _two_hosts() -> dict[str, Any]:
    """Members of a job with two instances, of which each has a part of a channel."""
    whole = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/data/train/"}
    parts = {**whole, "S3Uri": f"s3://{BUCKET}/data/parts/", "S3DataDistributionType": "ShardedByS3Key"}
    channels = {"train": whole, "parts": parts}
    return {
        "ResourceConfig": {"InstanceCount": 2, "InstanceType": "ml.m5.xlarge", "VolumeSizeInGB": 30},
        "InputDataConfig": [
            {"ChannelName": name, "DataSource": {"S3DataSource": source}} for name, source in channels.items()
        ],
    }


def test_the_instances_of_a_job_are_hosts_of_one_run(jobs: dict[str, Any], store: Store, server: Server) -> None:
    job = jobs["two-hosts"]
    assert (job["TrainingJobStatus"], job["ResourceConfig"]["InstanceCount"]) == ("Completed", 2)
    output = store.archive("out/two-hosts/output/output.tar.gz")
    found = [json.loads(output[f"algo-{number}.json"]) for number in (1, 2)]
    hosts = ["algo-1", "algo-2"]
    assert [one["current_host"] for one in found] == hosts
    assert all(one["hosts"] == hosts for one in found)
    assert [one["parts"] for one in found] == [["0.txt", "2.txt"], ["1.txt"]]
    assert list(store.archive("out/two-hosts/output/model.tar.gz")) == ["model.pt"]
    run = leadline.open_run(str(server.folder / "runs" / "two-hosts"))
    assert {document["node"] for document in run.manifest.nodes} == set(hosts)
    workers = run.worker_documents()
    assert {document.node for document in workers.values()} == set(hosts)
    assert [document.steps["train"] for document in workers.values()] == [60, 60]
    keys = store.keys("profile/two-hosts/profiler-output/system/incremental/")
    assert {key.rsplit(".", 2)[1] for key in keys} == set(hosts)


def test_a_job_fails_as_a_whole_if_one_of_its_instances_does(jobs: dict[str, Any], server: Server) -> None:
    job = jobs["half-failing"]
    assert (job["TrainingJobStatus"], job["FailureReason"]) == (
        "Failed",
        "AlgorithmError: ValueError: the data has a hole, exit code: 1",
    )
    assert not _is_running(int((server.folder / "half.started").read_text()))


def test_a_healthy_job_completes_with_its_model(jobs: dict[str, Any], store: Store) -> None:
    job = jobs["healthy"]
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Completed", "Completed")
    assert {name: statuses(job)[name] for name in ("ExplodingTensor", "ProfilerReport")} == {
        "ExplodingTensor": "NoIssuesFound",
        "ProfilerReport": "NoIssuesFound",
    }
    assert [row["Status"] for row in job["SecondaryStatusTransitions"]] == [
        *("Pending", "Starting", "Downloading", "Training", "Uploading", "Completed")
    ]
    assert job["ModelArtifacts"]["S3ModelArtifacts"] == f"s3://{BUCKET}/out/healthy/output/model.tar.gz"
    assert list(store.archive("out/healthy/output/model.tar.gz")) == ["model.pt"]
    loss = float(store.archive("out/healthy/output/output.tar.gz")["loss.txt"])
    assert loss < 1


def test_a_rule_stops_the_job_in_which_the_loss_explodes(jobs: dict[str, Any]) -> None:
    job = jobs["exploding"]
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Stopped")
    assert statuses(job)["ExplodingTensor"] == "IssuesFound"
    details = job["DebugRuleEvaluationStatuses"][0]["StatusDetails"]
    condition = "RuleEvaluationConditionMet: Evaluation of the rule ExplodingTensor at step "
    assert details.startswith(condition)
    assert int(details.removeprefix(condition).split()[0]) < 5


def test_the_finding_is_mailed_to_the_address_of_the_action(jobs: dict[str, Any], mail: MailEndpoint) -> None:
    (message,) = mail.mails
    assert "me@example.org" in str(message["To"])
    assert message["Subject"] == "SMDebugRule:ExplodingTensor fired"
    assert "Training job: exploding" in message.get_content()


def test_the_address_of_the_action_has_subscribed_to_the_topic_of_debugger(
    jobs: dict[str, Any], server: Server
) -> None:
    sns = server.client("sns")
    topic = sns.create_topic(Name="SMDebugRules")["TopicArn"]  # as smdebug's own action does
    (row,) = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    assert (row["Protocol"], row["Endpoint"]) == ("email", "me@example.org")


def test_custom_rules_of_smdebug_are_evaluated_and_stop_the_job(jobs: dict[str, Any], server: Server) -> None:
    rows = {row["RuleConfigurationName"]: row for row in jobs["healthy"]["DebugRuleEvaluationStatuses"]}
    found = {name: (rows[name]["RuleEvaluationStatus"], rows[name].get("StatusDetails")) for name in rows}
    met = "RuleEvaluationConditionMet: Evaluation of the rule LossAbove at step 0 resulted in the condition being met\n"
    assert found["never"] == ("NoIssuesFound", None)
    assert found["fires"] == ("IssuesFound", met)
    assert found["unknown"][0] == "Error"
    assert "did you mean 'LossAbove'" in str(found["unknown"][1])
    stopped = jobs["stopped-by-custom-rule"]
    assert (stopped["TrainingJobStatus"], statuses(stopped)) == ("Stopped", {"custom": "IssuesFound"})
    logs, group = server.client("logs"), "/aws/sagemaker/ProcessingJobs"
    (stream,) = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix="healthy-never-")["logStreams"]
    events = logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"])["events"]
    assert [event["message"] for event in events] == [f"step {step}" for step in range(60)]


@pytest.mark.parametrize("name", ["healthy", "exploding"])
def test_the_tensors_are_a_trial_at_their_documented_path(
    jobs: dict[str, Any], store: Store, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    path = f"{jobs[name]['DebugHookConfig']['S3OutputPath']}/{name}/debug-output"
    store.fetch(path.removeprefix(f"s3://{BUCKET}/"), tmp_path / "trial")
    trial = create_trial(str(tmp_path / "trial"))
    (loss,) = trial.tensor_names(collection="losses")
    run = leadline.open_run(str(server.folder / "runs" / name))
    recorded = {row["step"]: row["value"] for row in run.scalars(loss).to_pylist()}
    steps = trial.tensor(loss).steps()
    assert steps[:3] == [0, 1, 2]
    assert trial.tensor(loss).value(0).item() == recorded[0]
    gradient = next(name for name in trial.tensor_names(collection="gradients") if name.endswith("0.weight"))
    assert trial.tensor(gradient).value(0).shape == (8, 1)


def test_the_profiler_report_is_at_its_documented_path(jobs: dict[str, Any], store: Store) -> None:
    page = store.read("out/healthy/rule-output/ProfilerReport/profiler-output/profiler-report.html")
    assert b"<html" in page
    assert store.keys("out/healthy/rule-output/ProfilerReport/profiler-output/profiler-report.ipynb")


def test_the_system_metrics_are_at_their_documented_path(jobs: dict[str, Any], store: Store) -> None:
    keys = store.keys("profile/healthy/profiler-output/system/incremental/")
    assert all(key.endswith(".algo-1.json") for key in keys)
    lines = [json.loads(line) for key in keys for line in store.read(key).splitlines()]
    assert {"cpu0", "MemoryUsedPercent"} <= {line["Name"] for line in lines}
    job = jobs["healthy"]
    for line in lines:
        assert job["CreationTime"].timestamp() <= line["Timestamp"] <= job["TrainingEndTime"].timestamp()
        assert 0 <= line["Value"] <= 100


def test_what_a_script_finds_is_what_a_container_has(jobs: dict[str, Any], store: Store, server: Server) -> None:
    assert jobs["shown"]["TrainingJobStatus"] == "Completed"
    found = json.loads(store.archive("out/shown/output/model.tar.gz")["found.json"])
    variables, files = found["environment"], found["files"]
    assert json.loads(variables["SM_HPS"]) == {"do": "show", "depth": 3}
    assert found["arguments"][1:] == ["--depth", "3", "--do", "show"]
    assert (variables["SM_HP_DEPTH"], variables["MINE"], variables["SM_LOG_LEVEL"]) == ("3", "yes", "10")
    assert variables["TRAINING_JOB_NAME"] == "shown"
    assert variables["TRAINING_JOB_ARN"] == jobs["shown"]["TrainingJobArn"]
    assert json.loads(variables["SM_CHANNELS"]) == ["train"]
    assert os.listdir(variables["SM_CHANNEL_TRAIN"]) == ["inputs.txt"]
    assert files["resourceconfig.json"]["hosts"] == json.loads(variables["SM_HOSTS"]) == ["algo-1"]
    assert files["hyperparameters.json"]["do"] == '"show"'
    assert list(files["inputdataconfig.json"]) == ["train"]
    assert "debughookconfig.json" not in files


def test_job_folders_are_private_and_the_state_is_not_named_in_a_job(
    jobs: dict[str, Any], store: Store, server: Server
) -> None:
    found = json.loads(store.archive("out/shown/output/model.tar.gz")["found.json"])
    (state,) = server.folder.glob("state.sqlite")
    assert not [name for name, value in found["environment"].items() if state.name in value]
    paths = [server.folder, *server.folder.rglob("*")]
    modes = {path: os.lstat(path).st_mode for path in paths if not path.is_symlink()}
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}
    assert {"job.log", "served.py", "progress.json", "train", "inputs.txt", "manifest.json"} <= {
        path.name for path in modes
    }
    assert os.stat(state).st_mode & 0o777 == 0o600


def test_the_files_of_a_model_are_readable_for_who_unpacks_it(jobs: dict[str, Any], store: Store) -> None:
    content = io.BytesIO(store.read("out/healthy/output/model.tar.gz"))
    with tarfile.open(fileobj=content) as archive:
        modes = {member.name: oct(member.mode) for member in archive}
    assert len(modes) > 1
    assert set(modes.values()) == {"0o755", "0o644"}


def test_failures_say_why(jobs: dict[str, Any], store: Store) -> None:
    assert jobs["failing"]["TrainingJobStatus"] == "Failed"
    assert jobs["failing"]["FailureReason"] == "AlgorithmError: ValueError: the data has a hole, exit code: 1"
    assert not store.keys("out/failing/output/model.tar.gz")
    assert jobs["without-data"]["FailureReason"].startswith("ClientError: s3://no-bucket/x: ")


def test_a_job_is_stopped_when_its_time_is_over(jobs: dict[str, Any]) -> None:
    assert (jobs["late"]["TrainingJobStatus"], jobs["late"]["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")


def test_the_log_is_read_as_clients_of_cloudwatch_do(jobs: dict[str, Any], server: Server) -> None:
    logs, group = server.client("logs"), "/aws/sagemaker/TrainingJobs"
    (stream,) = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix="healthy/")["logStreams"]
    request = {"logGroupName": group, "logStreamName": stream["logStreamName"], "startFromHead": True}
    events = logs.get_log_events(**request)
    times = {event["message"]: event["timestamp"] / 1000 for event in events["events"]}
    phases = {row["Status"]: row["StartTime"].timestamp() for row in jobs["healthy"]["SecondaryStatusTransitions"]}
    assert phases["Training"] < times["trained 60 steps"] < phases["Uploading"] + 0.001  # it was written then
    assert logs.get_log_events(**request, nextToken=events["nextForwardToken"])["events"] == []


def test_identity_and_roles(server: Server) -> None:
    assert ":assumed-role/" in server.client("sts").get_caller_identity()["Arn"]
    role = server.client("iam").get_role(RoleName="SageMakerRole")["Role"]
    assert role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] == {"Service": "sagemaker.amazonaws.com"}


def test_the_address_without_the_token_leads_nowhere(server: Server) -> None:
    for address in (server.host, f"{server.address}x", f"{server.host}/{'x' * 32}"):
        with pytest.raises(ClientError, match=r"AccessDeniedException.* serve --env"):
            client("sagemaker", address).list_training_jobs()
        with pytest.raises(ClientError, match="AccessDeniedException"):
            client("sts", address).get_caller_identity()


def test_errors_have_their_types(jobs: dict[str, Any], server: Server) -> None:
    sagemaker = server.client()
    with pytest.raises(sagemaker.exceptions.ResourceInUse):
        create(sagemaker, "healthy", "served.py", {})
    with pytest.raises(ClientError, match=r"\(ValidationException\).*Requested resource not found"):
        sagemaker.describe_training_job(TrainingJobName="nothing")
    with pytest.raises(ClientError, match=r"\(ValidationException\).*'resourceConfig.instanceType'"):
        create(sagemaker, "x", "served.py", {}, ResourceConfig={"InstanceType": "ml.bogus", "VolumeSizeInGB": 1})
    with pytest.raises(ClientError, match=r"\(UnknownOperationException\)"):
        sagemaker.list_models()


def test_a_running_job_is_changed_and_stopped_and_its_waiters_return(server: Server, tmp_path: Path) -> None:
    sagemaker = server.client()
    rules = [rule("MaxInitializationTime"), rule("OverallSystemUsage")]
    place = {"do": "wait", "place": json.dumps(str(tmp_path / "stopped"))}
    create(sagemaker, "stopped", "served_plain.py", place, ProfilerRuleConfigurations=rules)
    wait_for((tmp_path / "stopped.started").exists, "the start of the job")

    sagemaker.update_training_job(
        TrainingJobName="stopped",
        ProfilerConfig={"ProfilingIntervalInMilliseconds": 100},
        ProfilerRuleConfigurations=[rule("CPUBottleneck", cpu_threshold="80")],
    )
    rows = sagemaker.describe_training_job(TrainingJobName="stopped")["ProfilerRuleEvaluationStatuses"]
    assert [row["RuleConfigurationName"] for row in rows] == [
        *("MaxInitializationTime", "OverallSystemUsage", "CPUBottleneck")
    ]
    sagemaker.stop_processing_job(ProcessingJobName=rows[1]["RuleEvaluationJobArn"].split("/")[-1])
    requests = server.folder / "runs" / "stopped" / "control"
    kinds = [json.loads(path.read_text())["kind"] for path in sorted(requests.glob("*.json"))]
    assert kinds == ["set", "rule", "remove_rule"]

    sagemaker.stop_training_job(TrainingJobName="stopped")
    waiter = sagemaker.get_waiter("training_job_completed_or_stopped")
    waiter.wait(TrainingJobName="stopped", WaiterConfig={"Delay": 1, "MaxAttempts": 120})
    job = ended(sagemaker, "stopped")
    assert job["TrainingJobStatus"] == "Stopped"
    assert "Stopping" in [row["Status"] for row in job["SecondaryStatusTransitions"]]
    assert statuses(job)["OverallSystemUsage"] == "Stopped"


def test_the_server_is_killed_while_three_jobs_run(store: Store, tmp_path: Path) -> None:
    """One job ends while there is no server, one later, one process is killed, and a fourth job waited in the queue."""
    server = Server(tmp_path / "folder", store.address, "--slots", "3")
    names = ("ends", "goes-on", "is-killed", "waits")
    try:
        sagemaker = server.client()
        for name in names:
            create(sagemaker, name, "served_plain.py", {"do": "wait", "place": json.dumps(str(tmp_path / name))})
        for name in names[:3]:
            wait_for((tmp_path / f"{name}.started").exists, f"the start of {name}")
    finally:
        server.kill()
    folder = tmp_path / "folder" / "jobs"
    (tmp_path / "ends.finish").touch()
    wait_for(lambda: json.loads((folder / "ends/progress.json").read_text())["status"] == "Completed", "the end")

    keys = tmp_path / "keys"
    access, secret = CREDENTIALS["AWS_ACCESS_KEY_ID"], "a-secret-of-some-length"
    keys.write_text(f"[default]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n")
    keys.chmod(0o600)
    server = Server(tmp_path / "folder", store.address, "--slots", "3", "--keys", str(keys))
    try:
        _check_signatures(server, access, secret)
        sagemaker = _signing_client(server, access, secret)
        assert ended(sagemaker, "ends")["TrainingJobStatus"] == "Completed"
        assert sagemaker.describe_training_job(TrainingJobName="goes-on")["SecondaryStatus"] == "Training"
        wait_for((tmp_path / "waits.started").exists, "the start of the job that waited")
        os.kill(_job_process(folder / "is-killed"), signal.SIGKILL)
        job = ended(sagemaker, "is-killed")
        assert (job["TrainingJobStatus"], job["FailureReason"][:19]) == ("Failed", "InternalServerError")
        training = int((tmp_path / "is-killed.started").read_text())
        wait_for(lambda: not _is_running(training), "the end of the training whose job is lost")
        for name in ("goes-on", "waits"):
            (tmp_path / f"{name}.finish").touch()
            assert ended(sagemaker, name)["TrainingJobStatus"] == "Completed"
        found = sagemaker.list_training_jobs()["TrainingJobSummaries"]
        assert sorted(row["TrainingJobName"] for row in found) == sorted(names)
    finally:
        server.end()
    starts = {name: len((tmp_path / f"{name}.started").read_text().splitlines()) for name in names}
    assert starts == dict.fromkeys(names, 1)


def _signing_client(server: Server, access: str, secret: str) -> Any:
    import boto3

    keys = {"aws_access_key_id": access, "aws_secret_access_key": secret}
    return boto3.client("sagemaker", endpoint_url=server.address, region_name=REGION, **keys)


def _check_signatures(server: Server, access: str, secret: str) -> None:
    import httpx

    with pytest.raises(ClientError, match=r"\(InvalidSignatureException\)"):
        _signing_client(server, access, secret + "x").list_training_jobs()
    with pytest.raises(ClientError, match=r"\(UnrecognizedClientException\)"):
        _signing_client(server, "AKIAOTHER", secret).list_training_jobs()
    headers = {"content-type": "application/x-amz-json-1.1", "x-amz-target": "SageMaker.ListTrainingJobs"}
    answer = httpx.post(server.address, headers=headers, content=b"{}")
    assert (answer.status_code, answer.json()["__type"]) == (403, "MissingAuthenticationTokenException")


def _job_process(folder: Path) -> int:
    """Return the pid of the process of a job."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[-3:-1] == [b"leadline.serve", os.fsencode(folder)]:
                return int(entry.name)
    raise AssertionError(f"no process of {folder}")


def _is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
