"""Debugger's notebooks for XGBoost, whose estimators have an image and no script, and the same with SDK v3."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from amazon import CREDENTIALS, REGION, client
from launching import LEADLINE, environment, script, wait_for
from serving import BUCKET, ENDED, LOOK_SECONDS, Server, Store, s3_store

from leadline.compat.smdebug import create_trial

pytestmark = pytest.mark.slow
VENVS: Final = Path(__file__).parents[2] / ".venvs"
ROOT: Final = f"s3://{BUCKET}"
SDK_BUCKET: Final = f"sagemaker-{REGION}-000000000000"


def libsvm(features: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> str:
    rows = (" ".join(f"{index}:{value:.6g}" for index, value in enumerate(row, 1)) for row in features)
    return "".join(f"{label:g} {row}\n" for label, row in zip(labels, rows, strict=True))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with s3_store() as store, pytest.MonkeyPatch.context() as patch:
        variables = {"AWS_ENDPOINT_URL_S3": store.address, "LEADLINE_CACHE": str(tmp_path_factory.mktemp("cache"))}
        for name, value in (CREDENTIALS | variables).items():
            patch.setenv(name, value)
        random = np.random.default_rng(3)
        features = random.normal(size=(500, 8))
        ages = 10 + 3 * features[:, 0] + features[:, 1] ** 2 + 0.2 * random.normal(size=500)
        classes = np.digitize(ages, np.quantile(ages, [0.25, 0.5, 0.75]))
        for name, labels in (("regression", ages), ("classes", classes)):
            store.put(f"{name}/train/data.libsvm", libsvm(features[:400], labels[:400]))
            store.put(f"{name}/validation/data.libsvm", libsvm(features[400:], labels[400:]))
        place = {"LocationConstraint": REGION}  # the SDKs would create their bucket at the same moment
        client("s3", store.address).create_bucket(Bucket=SDK_BUCKET, CreateBucketConfiguration=place)
        yield store


@pytest.fixture(scope="module")
def server(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    python = str(VENVS / "trees" / "bin" / "python")
    server = Server(tmp_path_factory.mktemp("serve") / "folder", store.address, "--slots", "4", python=python)
    try:
        yield server
    finally:
        server.end()


@pytest.fixture(scope="module")
def clients(
    server: Server, store: Store, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """The SDKs in a shell with the printed environment, started at once."""
    folder = tmp_path_factory.mktemp("clients")
    words = [*LEADLINE, "serve", "--env", "--folder", str(server.folder), "--port", server.host.rpartition(":")[2]]
    command = [*words, "--region", REGION, "--s3-endpoint", store.address]
    exports = subprocess.run(command, env=environment(**CREDENTIALS), capture_output=True, text=True, check=True).stdout
    variables = {name: value for name, value in environment().items() if not name.startswith(("AWS", "PYTHONPATH"))}
    scripts = {"v2": ("sagemaker", "sdk_xgboost.py"), "v3": ("sagemaker_core", "sdk_xgboost_trainer.py")}
    started = {
        name: subprocess.Popen(
            [
                "/bin/sh",
                "-c",
                f'{exports}\nexec "$@"',
                "sh",
                str(VENVS / venv / "bin" / "python"),
                script(file),
                BUCKET,
            ],
            cwd=folder,
            env=variables | {"HOME": str(folder), "AWS_EC2_METADATA_DISABLED": "true"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, (venv, file) in scripts.items()
    }
    yield started
    for process in started.values():
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate()
    assert process.returncode == 0, err
    return dict(json.loads(out.strip().splitlines()[-1]))


def test_20_a_confusion_matrix_of_the_rounds_while_the_trees_grow(clients: object, server: Server) -> None:
    sagemaker = server.client()

    def names() -> list[str]:
        found = sagemaker.list_training_jobs(NameContains="realtime")["TrainingJobSummaries"]
        return [row["TrainingJobName"] for row in found]

    (name,) = wait_for(names, "the job of the notebook")
    wait_for(
        lambda: sagemaker.describe_training_job(TrainingJobName=name)["SecondaryStatus"] in ("Training", *ENDED),
        "the start of the training",
    )
    trial = create_trial(f"{ROOT}/{name}/debug-output")
    matrices: dict[int, np.ndarray[Any, Any]] = {}
    is_over = False
    while not is_over:
        time.sleep(LOOK_SECONDS)
        is_over = trial.loaded_all_steps  # before the steps are read: none can follow
        for step in sorted(set(trial.steps()) - set(matrices)):  # no other steps than those of the collections
            labels = trial.tensor("labels").value(step).astype(int).reshape(-1)
            predicted = trial.tensor("predictions").value(step).astype(int).reshape(-1)
            matrices[step] = np.zeros((4, 4), int)
            np.add.at(matrices[step], (labels, predicted), 1)
    assert set(range(0, 60, 3)) <= set(matrices)
    assert all(matrix.sum() == 100 for matrix in matrices.values())
    assert np.trace(matrices[57]) > np.trace(matrices[0])


def test_19_a_rule_on_a_regression_and_its_tensors(clients: dict[str, subprocess.Popen[str]], store: Store) -> None:
    found = said(clients["v2"])
    assert found["rules"] == {
        "LossNotDecreasing": "IssuesFound",
        "ProfilerReport": "NoIssuesFound",
    }  # as in the notebook
    assert list(store.archive(found["model"].removeprefix(f"{ROOT}/"))) == ["xgboost-model"]
    report = f"out/{found['job']}/rule-output/ProfilerReport/profiler-output/profiler-report.html"
    assert b"<html" in store.read(report)
    trial = create_trial(found["tensors"])
    assert trial.collection("metrics").tensor_names == {"train-rmse", "validation-rmse"}
    rmse = trial.tensor("train-rmse")
    assert set(range(0, 51, 5)) <= set(rmse.steps())
    assert rmse.value(50) < rmse.value(0)
    held = trial.tensor("validation-rmse")
    assert any(held.value(step + 10) > 0.999 * held.value(step) for step in range(0, 41, 5))
    for name, pattern in (("feature_importance", "feature_importance/weight/f"), ("average_shap", "average_shap/f")):
        tensors = [one for one in trial.collection(name).tensor_names if one.startswith(pattern)]
        assert len(tensors) >= 2
        assert all(trial.tensor(one).value(trial.tensor(one).steps()[-1]).size for one in tensors)


def test_the_model_trainer_of_sdk_v3(clients: dict[str, subprocess.Popen[str]], store: Store) -> None:
    found = said(clients["v3"])
    assert (found["status"], found["rules"]["LossNotDecreasing"]) == ("Stopped", "IssuesFound")
    assert store.read(f"out/{found['name']}/rule-output/ProfilerReport/profiler-output/profiler-report.html")
    assert found["trained"] == "Completed"
    assert list(store.archive(found["model"].removeprefix(f"{ROOT}/"))) == ["xgboost-model"]
