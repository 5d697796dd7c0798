"""The clients of SageMaker as they are: SDK v2, ``sagemaker.core`` and ``ModelTrainer`` of SDK v3, AWS CLI and boto3.

Each starts a job in which gradients vanish; the rule stops it, the report lies at its path, and the tensors are read.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from amazon import CREDENTIALS, REGION, client
from launching import LEADLINE, SCRIPTS, environment, script
from serving import BUCKET, IMAGE, Server, Store, create, ended, rule, s3_store

from leadline.compat.smdebug import create_trial, modes
from leadline.compat.smdebug.profiler.analysis.notebook_utils.training_job import TrainingJob

pytestmark = pytest.mark.slow
VENVS: Final = Path(__file__).parents[2] / ".venvs"
ROOT: Final = f"s3://{BUCKET}"
SDK_BUCKET: Final = f"sagemaker-{REGION}-000000000000"
STOP: Final = '{\\"name\\": \\"stoptraining\\"}'
FOUND: Final = {"VanishingGradient": "IssuesFound", "ProfilerReport": "NoIssuesFound"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with s3_store("debugger_images.py") as store, pytest.MonkeyPatch.context() as patch:
        variables = {"AWS_ENDPOINT_URL_S3": store.address, "LEADLINE_CACHE": str(tmp_path_factory.mktemp("cache"))}
        for name, value in (CREDENTIALS | variables).items():
            patch.setenv(name, value)
        store.put("data/train/none.txt", "the script makes its data")
        place = {"LocationConstraint": REGION}  # the SDKs would create their bucket at the same moment
        client("s3", store.address).create_bucket(Bucket=SDK_BUCKET, CreateBucketConfiguration=place)
        yield store


@pytest.fixture(scope="module")
def server(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("serve") / "folder", store.address, "--slots", "2")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL_SAGEMAKER", server.address)
            yield server
    finally:
        server.end()


@pytest.fixture(scope="module")
def exports(server: Server, store: Store) -> str:
    """The lines for a shell that ``leadline serve --env`` prints."""
    port = server.host.rpartition(":")[2]
    words = [*LEADLINE, "serve", "--env", "--folder", str(server.folder), "--port", port, "--region", REGION]
    command = [*words, "--s3-endpoint", store.address]
    return subprocess.run(command, env=environment(**CREDENTIALS), capture_output=True, text=True, check=True).stdout


def started(exports: str, folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start a client in a shell with the printed environment, and with nothing else for AWS."""
    variables = {name: value for name, value in environment().items() if not name.startswith(("AWS", "PYTHONPATH"))}
    return subprocess.Popen(
        ["/bin/sh", "-c", f'{exports}\nexec "$@"', "sh", *words],
        cwd=folder,
        env=variables | {"HOME": str(folder), "AWS_EC2_METADATA_DISABLED": "true"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def clients(
    exports: str, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """The SDKs, which need a while to be imported, started at once."""
    folder = tmp_path_factory.mktemp("clients")
    python_2, python_3 = (str(VENVS / name / "bin" / "python") for name in ("sagemaker", "sagemaker_core"))
    clients = {
        "estimator": started(exports, folder, python_2, script("sdk_estimator.py"), str(source_folder(folder))),
        "core": started(exports, folder, python_3, script("sdk_core.py"), BUCKET),
        "trainer": started(exports, folder, python_3, script("sdk_trainer.py"), BUCKET, str(folder / "source")),
    }
    yield clients
    for process in clients.values():
        process.kill()
        process.communicate()


def source_folder(folder: Path) -> Path:
    """A folder with the training scripts alone: an SDK uploads all that is in it."""
    (folder / "source").mkdir()
    for name in ("debugger_images.py", "sdk_trained.py"):
        (folder / "source" / name).write_text((SCRIPTS / name).read_text())
    return folder / "source"


def said(client: subprocess.Popen[str]) -> dict[str, Any]:
    """Return what a client has printed last."""
    out, err = client.communicate()
    assert client.returncode == 0, err
    return dict(json.loads(out.strip().splitlines()[-1]))


def check_tensors(path: str) -> None:
    trial = create_trial(path)
    assert trial.loaded_all_steps
    assert len(trial.tensor_names(collection="gradients")) == 6
    gradient = trial.tensor("gradient/Net_conv1.weight")
    assert gradient.value(0, mode=modes.TRAIN).shape == (8, 1, 3, 3)


def test_raw_boto3(clients: object, server: Server, store: Store) -> None:
    sagemaker = server.client()
    create(
        sagemaker,
        "raw",
        "debugger_images.py",
        {"epochs": "100000000", "init": "faint", "pause": "0.02"},
        DebugHookConfig={
            "S3OutputPath": ROOT,
            "HookParameters": {"train.save_interval": "5", "eval.save_interval": "1"},
            "CollectionConfigurations": [{"CollectionName": "gradients"}],
        },
        DebugRuleConfigurations=[rule("VanishingGradient", action_json=STOP)],
        ProfilerConfig={"S3OutputPath": ROOT},
        ProfilerRuleConfigurations=[rule("ProfilerReport")],
    )
    job = ended(sagemaker, "raw")
    rows = [*job["DebugRuleEvaluationStatuses"], *job["ProfilerRuleEvaluationStatuses"]]
    assert job["TrainingJobStatus"] == "Stopped", job
    assert {row["RuleConfigurationName"]: row["RuleEvaluationStatus"] for row in rows} == FOUND
    assert store.read("out/raw/rule-output/ProfilerReport/profiler-output/profiler-report.html")
    check_tensors(f"{ROOT}/raw/debug-output")
    profiled = TrainingJob("raw", REGION)
    assert profiled.profiler_s3_output_path == f"{ROOT}/raw/profiler-output"
    profiled.wait_for_sys_profiling_data_to_be_available()
    events = profiled.get_systems_metrics_reader().get_events(0, 2**51)
    assert {"CPUUtilization", "MemoryUsedPercent"} <= {event.dimension for event in events}
    phases = {event.event_phase for event in profiled.get_framework_metrics_reader().get_events(0, 2**51)}
    assert {"Step:ModeKeys.TRAIN", "Forward"} <= phases


def test_the_aws_cli(exports: str, server: Server, store: Store, tmp_path: Path) -> None:
    request = {
        "TrainingJobName": "by-cli",
        "RoleArn": "arn:aws:iam::123456789012:role/SageMakerRole",
        "AlgorithmSpecification": {"TrainingImage": "pytorch", "TrainingInputMode": "File"},
        "OutputDataConfig": {"S3OutputPath": f"{ROOT}/out"},
        "ResourceConfig": {"InstanceCount": 1, "InstanceType": "ml.m5.xlarge", "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        "HyperParameters": {
            "sagemaker_program": "debugger_images.py",
            "sagemaker_submit_directory": f"{ROOT}/code/sourcedir.tar.gz",
            "epochs": "100000000",
            "init": "faint",
            "pause": "0.02",
        },
        "DebugHookConfig": {
            "S3OutputPath": ROOT,
            "CollectionConfigurations": [
                {"CollectionName": "gradients", "CollectionParameters": {"save_interval": "5"}}
            ],
        },
        "DebugRuleConfigurations": [
            {
                "RuleConfigurationName": "VanishingGradient",
                "RuleEvaluatorImage": IMAGE,
                "RuleParameters": {"rule_to_invoke": "VanishingGradient", "action_json": STOP},
            }
        ],
        "ProfilerConfig": {"S3OutputPath": ROOT},
        "ProfilerRuleConfigurations": [rule("ProfilerReport")],
    }
    (tmp_path / "job.json").write_text(json.dumps(request))
    python = str(VENVS / "sagemaker" / "bin" / "python")

    def aws(*words: str) -> dict[str, Any]:
        client = started(exports, tmp_path, python, "-m", "awscli", "sagemaker", *words, "--output", "json")
        out, err = client.communicate()
        assert client.returncode == 0, err
        return dict(json.loads(out))

    arn = aws("create-training-job", "--cli-input-json", "file://job.json")["TrainingJobArn"]
    assert arn.endswith("training-job/by-cli")
    ended(server.client(), "by-cli")
    job = aws("describe-training-job", "--training-job-name", "by-cli")
    rows = [*job["DebugRuleEvaluationStatuses"], *job["ProfilerRuleEvaluationStatuses"]]
    assert job["TrainingJobStatus"] == "Stopped", job
    assert {row["RuleConfigurationName"]: row["RuleEvaluationStatus"] for row in rows} == FOUND
    assert store.read("out/by-cli/rule-output/ProfilerReport/profiler-output/profiler-report.html")
    check_tensors(f"{ROOT}/by-cli/debug-output")


def test_the_estimator_of_sdk_v2(clients: dict[str, subprocess.Popen[str]], server: Server, store: Store) -> None:
    found = said(clients["estimator"])
    assert (found["status"], found["rules"]) == ("Stopped", FOUND)
    assert found["attached"] == found["name"]
    check_tensors(found["tensors"])
    bucket, _, prefix = found["output"].removeprefix("s3://").partition("/")
    report = f"{prefix}{found['name']}/rule-output/ProfilerReport/profiler-output/profiler-report.html"
    page = client("s3", store.address).get_object(Bucket=bucket, Key=report)["Body"].read()
    assert b"<html" in page


def test_the_training_job_of_sdk_v3(clients: dict[str, subprocess.Popen[str]], store: Store) -> None:
    found = said(clients["core"])
    assert (found["status"], found["rules"]) == ("Stopped", FOUND)
    assert store.read("out/core/rule-output/ProfilerReport/profiler-output/profiler-report.html")
    check_tensors(f"{ROOT}/core/debug-output")


def test_the_model_trainer_of_sdk_v3(clients: dict[str, subprocess.Popen[str]], server: Server, store: Store) -> None:
    found = said(clients["trainer"])
    assert (found["status"], found["rules"]) == ("Stopped", FOUND)
    assert store.read(f"out/{found['name']}/rule-output/ProfilerReport/profiler-output/profiler-report.html")
    check_tensors(f"{ROOT}/{found['name']}/debug-output")
    assert found["trained"] == "Completed"
    assert set(store.archive(found["model"].removeprefix(f"{ROOT}/"))) == {"model.pt"}
    [log] = (server.folder / "jobs" / found["model"].split("/")[-3]).glob("job.log")
    assert "trained 5 steps on ml.m5.xlarge" in log.read_text()
