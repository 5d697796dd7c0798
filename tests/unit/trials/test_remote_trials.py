"""Trials in an object store, which here is a folder that obstore serves, or moto's S3."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import boto3
import numpy as np
import pytest

import leadline
from leadline.compat.smdebug import create_trial
from leadline.compat.smdebug import trial_step_source as steps_module
from leadline.compat.smdebug.core.access_layer import has_training_ended, training_has_ended
from leadline.compat.smdebug.core.collection_manager import CollectionManager
from leadline.compat.smdebug.core.reader import FileReader
from leadline.compat.smdebug.core.writer import FileWriter
from leadline.compat.smdebug.exceptions import SMDebugRuntimeError
from leadline.compat.smdebug.profiler.algorithm_metrics_reader import S3AlgorithmMetricsReader
from leadline.compat.smdebug.trials import S3Trial
from leadline.errors import ConfigurationError, RunNotFoundError
from leadline.remote.mirror import safe_path
from leadline.remote.object_store import StoreError
from leadline.trials.remote_trial import fetch_trial, is_remote_trial

DATA = Path(__file__).parents[2] / "data" / "smdebug"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a job with a trial that smdebug wrote and its profiles."""
    variables = {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "secret"}
    for name, value in (variables | {"AWS_DEFAULT_REGION": "us-east-1"}).items():
        monkeypatch.setenv(name, value)
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="trials")
    for name, folder in (("pt1", "debug-output"), ("prof", "profiler-output")):
        for path in (path for path in (DATA / name).rglob("*") if path.is_file()):
            s3.upload_file(str(path), "trials", f"job/{folder}/{path.relative_to(DATA / name)}")
    return "s3://trials/job"


def files(folder: str | Path) -> dict[str, bytes]:
    paths = [path for path in Path(folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_a_copy_follows_a_trial_that_grows_and_one_that_is_replaced(tmp_path: Path) -> None:
    uri, store = f"file://{tmp_path}/pt1", tmp_path / "pt1"
    later = sorted((DATA / "pt1" / "index").rglob("*.json"))[2:]
    shutil.copytree(DATA / "pt1", store, ignore=lambda _, names: [n for n in names if n in [p.name for p in later]])
    folder = fetch_trial(uri)
    assert files(folder).keys() - {".copy.json"} == files(store).keys()
    for path in later:
        shutil.copy(path, store / path.relative_to(DATA / "pt1"))
    (store / "notes.txt").write_text("is no part of a trial")
    fetch_trial(uri)
    expected = files(DATA / "pt1")
    assert {name: content for name, content in files(folder).items() if name != ".copy.json"} == expected
    collections = next((store / "collections").rglob("*.json"))
    collections.write_text("{}")
    removed = sorted((store / "index").rglob("*.json"))[0]
    removed.unlink()
    fetch_trial(uri)
    assert Path(folder, collections.relative_to(store)).read_text() == "{}"
    assert not Path(folder, removed.relative_to(store)).exists()


def test_where_there_is_no_trial(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert not is_remote_trial(f"file://{tmp_path}/empty")
    with pytest.raises(ConfigurationError, match="there is no trial"):
        fetch_trial(f"file://{tmp_path}/empty")


def test_a_trial_in_s3_is_read_as_a_local_one(bucket: str) -> None:
    local = create_trial(DATA / "pt1")
    for trial in (
        create_trial(f"{bucket}/debug-output"),
        create_trial(bucket),
        S3Trial("mine", "trials", "job/debug-output/"),
    ):
        assert trial.tensor_names() == local.tensor_names()
        assert trial.steps() == local.steps()
        assert trial.loaded_all_steps
        for name in local.tensor_names():
            for step in local.tensor(name).steps():
                expected = local.tensor(name).value(step)
                np.testing.assert_array_equal(trial.tensor(name).value(step), expected)
    for run in (leadline.open_trial(bucket), leadline.open_run(f"{bucket}/debug-output/")):
        assert run.tensor_names() == leadline.open_trial(DATA / "pt1").tensor_names()
    events = S3AlgorithmMetricsReader(f"{bucket}/profiler-output").get_events(0, 2**51)
    assert events == S3AlgorithmMetricsReader(str(DATA / "prof")).get_events(0, 2**51) != []
    with pytest.raises(RunNotFoundError):
        leadline.open_run("s3://trials/nothing")


def test_a_trial_in_s3_is_waited_for_and_followed(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    s3, where = boto3.client("s3"), "late/debug-output"
    paths = [path for path in sorted((DATA / "pt1").rglob("*")) if path.is_file()]
    first = [path for path in paths if "00000000000" in path.name and path.name[11] in "02"]
    first += [path for path in paths if "collections" in path.name]

    def upload(selected: list[Path]) -> None:
        for path in selected:
            s3.upload_file(str(path), "trials", f"{where}/{path.relative_to(DATA / 'pt1')}")

    monkeypatch.setattr("leadline.compat.smdebug.trials.trial.time.sleep", lambda _: upload(first))
    monkeypatch.setattr(steps_module, "_FETCH_SECONDS", 0.0)
    trial = create_trial(f"s3://trials/{where}")
    assert (trial.steps(), trial.loaded_all_steps) == ([0, 2], False)
    upload(paths)
    assert trial.steps() == create_trial(DATA / "pt1").steps()
    assert trial.loaded_all_steps


def test_a_trial_is_written_to_s3(bucket: str, tmp_path: Path) -> None:
    """The same calls write the same files into a folder and into S3."""
    for place in ("s3://trials/written", str(tmp_path / "written")):
        assert not has_training_ended(place)
        with FileWriter(trial_dir=place, step=3, worker="worker_0") as writer:
            writer.write_tensor("a", np.arange(4.0), timestamp=1.0)
        manager = CollectionManager()
        manager.add("mine")
        manager.get("mine").add_tensor_name("a")
        manager.export(place, "worker_0_collections.json")
        training_has_ended(place)
        assert has_training_ended(place)
        with pytest.raises(SMDebugRuntimeError, match="earlier training"):
            training_has_ended(place)
    objects = boto3.resource("s3").Bucket("trials").objects.filter(Prefix="written/")
    stored = {entry.key.removeprefix("written/"): entry.get()["Body"].read() for entry in objects}
    assert stored == files(tmp_path / "written")
    (tensor,) = FileReader(writer.name().replace(str(tmp_path), "s3://trials")).read_tensors()
    assert (tensor[0], tensor[2].tolist()) == ("a", [0, 1, 2, 3])
    trial = create_trial("s3://trials/written")
    np.testing.assert_array_equal(trial.tensor("a").value(3), np.arange(4.0))
    assert (trial.tensor_names(collection="mine"), trial.loaded_all_steps) == (["a"], True)
    assert not has_training_ended("s3://trials/writ")


def test_names_that_lead_out_of_the_copy_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="leads out"):
        safe_path(str(tmp_path), "events/../../x")
    assert os.listdir(tmp_path) == []
