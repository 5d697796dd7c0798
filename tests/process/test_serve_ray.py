"""``leadline serve --engine ray`` on a cluster of two nodes on this machine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from launching import environment, script, wait_for
from serving import Server, Store, create, ended, s3_store

import leadline

pytestmark = pytest.mark.slow
RAY: Final = str(Path(__file__).parents[2] / ".venvs" / "ray" / "bin" / "python")


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with s3_store("served_plain.py") as store:
        store.put("data/train/inputs.txt", "0.5")
        yield store


@pytest.fixture(scope="module")
def server(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serve")
    words = [RAY, script("ray_nodes.py")]
    cluster = subprocess.Popen(
        words, cwd=folder, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert cluster.stdout is not None
    address = cluster.stdout.readline().strip()
    options = ("--engine", "ray", "--slots", "2")
    server = Server(folder / "folder", store.address, *options, python=RAY, RAY_ADDRESS=address)
    try:
        yield server
    finally:
        server.end()
        cluster.communicate()


@pytest.fixture(scope="module")
def sagemaker(server: Server) -> Any:
    sagemaker = server.client()
    two = {"ResourceConfig": {"InstanceCount": 2, "InstanceType": "ml.m5.xlarge", "VolumeSizeInGB": 30}}
    create(sagemaker, "shown", "served_plain.py", {"do": '"show"'}, **two)
    create(sagemaker, "failing", "served_plain.py", {"do": '"fail"'})
    return sagemaker


def test_the_instances_run_on_the_nodes_of_the_cluster(sagemaker: Any, store: Store, server: Server) -> None:
    assert ended(sagemaker, "shown")["TrainingJobStatus"] == "Completed"
    found = json.loads(store.archive("out/shown/output/model.tar.gz")["found.json"])
    assert json.loads(found["environment"]["SM_HOSTS"]) == ["algo-1", "algo-2"]
    output = store.archive("out/shown/output/output.tar.gz")
    nodes = [dict(json.loads(output[host]))["raylet"] for host in ("algo-1", "algo-2")]
    assert nodes[0] != nodes[1]
    run = leadline.open_run(str(server.folder / "runs" / "shown"))
    assert {document["node"] for document in run.manifest.nodes} == {"algo-1", "algo-2"}


def test_failures_and_logs_are_those_of_local_jobs(sagemaker: Any, server: Server) -> None:
    job = ended(sagemaker, "failing")
    assert (job["TrainingJobStatus"], job["FailureReason"]) == (
        "Failed",
        "AlgorithmError: ValueError: the data has a hole, exit code: 1",
    )
    assert "ValueError" in (server.folder / "jobs" / "failing" / "job.log").read_text()


def test_a_job_is_stopped_and_its_resources_are_given_back(sagemaker: Any, tmp_path: Path) -> None:
    for name in ("first", "second"):
        place = {"do": "wait", "place": json.dumps(str(tmp_path / name))}
        create(sagemaker, name, "served_plain.py", place)
        wait_for((tmp_path / f"{name}.started").exists, "the start of the job")
        sagemaker.stop_training_job(TrainingJobName=name)
        assert ended(sagemaker, name)["TrainingJobStatus"] == "Stopped"
