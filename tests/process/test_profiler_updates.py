"""UpdateTrainingJob on running jobs: the profiler is disabled and enabled, which shows in the data."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launching import wait_for
from serving import BUCKET, Server, Store, create, ended, rule, s3_store, statuses

import leadline

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with s3_store("served.py", "served_plain.py") as store:
        store.put("data/train/inputs.txt", "\n".join(str(number / 10) for number in range(-10, 10)))
        yield store


@pytest.fixture(scope="module")
def server(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("serve") / "folder", store.address)
    try:
        yield server
    finally:
        server.end()


def test_the_profiler_is_disabled_and_enabled_while_a_job_runs(server: Server, store: Store, tmp_path: Path) -> None:
    sagemaker = server.client()
    place = {"do": "wait", "place": json.dumps(str(tmp_path / "profiled"))}
    profiler = {"S3OutputPath": f"s3://{BUCKET}/profile", "ProfilingIntervalInMilliseconds": 100}
    rules = [rule("OverallSystemUsage"), rule("ProfilerReport")]
    create(sagemaker, "profiled", "served_plain.py", place, ProfilerConfig=profiler, ProfilerRuleConfigurations=rules)
    wait_for((tmp_path / "profiled.started").exists, "the start of the job")
    folder = server.folder / "runs" / "profiled"
    run = leadline.open_run(str(folder))

    def sampled_ns() -> list[int]:
        return sorted(set(run.refresh().system_metrics()["time_ns"].to_pylist()))

    def update(**config: Any) -> dict[str, Any]:
        answered = len(list((folder / "control").rglob("*agent*")))
        sagemaker.update_training_job(TrainingJobName="profiled", ProfilerConfig=config)
        wait_for(lambda: len(list((folder / "control").rglob("*agent*"))) > answered, "an answer")
        return dict(sagemaker.describe_training_job(TrainingJobName="profiled"))

    wait_for(lambda: len(sampled_ns()) > 3, "samples")
    stopped = update(DisableProfiler=True)
    off_ns = time.time_ns()
    assert (stopped["ProfilingStatus"], set(statuses(stopped).values())) == ("Disabled", {"Stopped"})
    time.sleep(1.5)
    on_ns = time.time_ns()
    started = update(DisableProfiler=False, ProfilingIntervalInMilliseconds=200)
    assert (started["ProfilingStatus"], set(statuses(started).values())) == ("Enabled", {"InProgress"})
    wait_for(lambda: len([at for at in sampled_ns() if at > on_ns]) > 5, "samples after the pause")
    (tmp_path / "profiled.finish").touch()
    job = ended(sagemaker, "profiled")
    times = sampled_ns()
    assert [at for at in times if off_ns + 200e6 < at < on_ns] == []  # one may have been under way
    after = [at for at in times if at > on_ns]
    assert np.median([later - earlier for earlier, later in itertools.pairwise(after)]) > 150e6
    assert "Stopped" not in statuses(job).values()
    assert store.read("out/profiled/rule-output/ProfilerReport/profiler-output/profiler-report.html")
    assert store.keys("profile/profiled/profiler-output/system/")


def test_a_job_whose_profiler_is_disabled_is_not_sampled(server: Server, store: Store) -> None:
    profiler = {"S3OutputPath": f"s3://{BUCKET}/profile", "DisableProfiler": True}
    sagemaker = server.client()
    create(
        sagemaker, "not-profiled", "served.py", {"lr": "0.05", "steps": "40", "pause": "0.05"}, ProfilerConfig=profiler
    )
    assert ended(sagemaker, "not-profiled")["TrainingJobStatus"] == "Completed"
    run = leadline.open_run(str(server.folder / "runs" / "not-profiled"))
    (request,) = (server.folder / "runs" / "not-profiled" / "control").glob("*.json")
    requested_ns = json.loads(request.read_text())["time_ns"]
    assert [at for at in run.system_metrics()["time_ns"].to_pylist() if at > requested_ns + 2e9] == []
    assert store.keys("profile/not-profiled/") == []
