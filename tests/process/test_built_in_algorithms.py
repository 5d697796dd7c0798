"""SageMaker's built-in algorithms through ``leadline serve``: an image and hyperparameters, no script."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from amazon import CREDENTIALS
from serving import BUCKET, Server, Store, create, ended, rule, s3_store, statuses

from leadline.compat.smdebug import create_trial

pytestmark = pytest.mark.slow
VENVS: Final = Path(__file__).parents[2] / ".venvs"
TREES: Final = str(VENVS / "trees" / "bin" / "python")
ROOT: Final = f"s3://{BUCKET}"
IMAGE: Final = "141502667606.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-xgboost:1.5-1"
PARAMETERS: Final = {"num_round": "25", "objective": "reg:squarederror", "max_depth": "3", "eta": "0.3", "seed": "7"}
ALONE: Final = """
import json, sys
import numpy, xgboost
rows = numpy.loadtxt(sys.argv[1], delimiter=",", dtype=numpy.float32)
held = numpy.loadtxt(sys.argv[2], delimiter=",", dtype=numpy.float32)
data = xgboost.DMatrix(rows[:, 1:], label=rows[:, 0])
seen = {}
model = xgboost.train(
    {"objective": "reg:squarederror", "max_depth": 3, "eta": 0.3, "seed": 7}, data, 25, evals=[(data, "train")],
    evals_result=seen, verbose_eval=False,
)
loaded = xgboost.Booster(model_file=sys.argv[3])
same = [float(one.predict(xgboost.DMatrix(held[:, 1:])).sum()) for one in (model, loaded)]
print(json.dumps({"rmse": seen["train"]["rmse"], "same": same, "rounds": loaded.num_boosted_rounds()}))
"""

LIGHT: Final = """
import json, sys
import lightgbm, numpy
rows = numpy.loadtxt(sys.argv[1], delimiter=",", dtype=numpy.float32)
data, seen = lightgbm.Dataset(rows[:, 1:], rows[:, 0]), {}
model = lightgbm.train(
    {"learning_rate": 0.2, "num_leaves": 7, "objective": "regression", "verbosity": -1}, data, 5,
    valid_sets=[data], valid_names=["train"], callbacks=[lightgbm.record_evaluation(seen)],
)
print(json.dumps({"model": model.model_to_string(), "l2": seen["train"]["l2"]}))
"""


def table(count: int, seed: int) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(seed)
    features = random.normal(size=(count, 5)).astype(np.float32)
    labels = features[:, 0] * 3 + features[:, 1] ** 2 + 0.1 * random.normal(size=count)
    return np.column_stack([labels, features]).astype(np.float32)


def csv(rows: np.ndarray[Any, Any]) -> str:
    return "".join(",".join(repr(float(value)) for value in row) + "\n" for row in rows)


def libsvm(rows: np.ndarray[Any, Any]) -> str:
    lines = (" ".join(f"{index}:{float(value)!r}" for index, value in enumerate(row[1:])) for row in rows)
    return "".join(f"{float(row[0])!r} {line}\n" for row, line in zip(rows, lines, strict=True))


def records(rows: np.ndarray[Any, Any]) -> bytes:
    """Messages of ``aialgs.data.Record`` in RecordIO, with dense tensors of 32 bits."""

    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    def entry(number: int, values: np.ndarray[Any, Any]) -> bytes:
        tensor = field(2, field(1, values.astype("<f4").tobytes()))
        return field(number, field(1, b"values") + field(2, tensor))

    messages = [entry(1, row[1:]) + entry(2, row[:1]) for row in rows]
    return b"".join(struct.pack("<II", 0xCED7230A, len(m)) + m + bytes(-len(m) % 4) for m in messages)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name, rows in (("train", table(300, 1)), ("validation", table(100, 2))):
        (folder / f"{name}.csv").write_text(csv(rows))
        (folder / f"{name}.libsvm").write_text(libsvm(rows))
        pq.write_table(pa.table({str(index): rows[:, index] for index in range(6)}), folder / f"{name}.parquet")
        (folder / f"{name}.recordio").write_bytes(records(rows))
    return folder


@pytest.fixture(scope="module")
def store(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with s3_store() as store, pytest.MonkeyPatch.context() as patch:
        variables = {"AWS_ENDPOINT_URL_S3": store.address, "LEADLINE_CACHE": str(tmp_path_factory.mktemp("cache"))}
        for name, value in (CREDENTIALS | variables).items():
            patch.setenv(name, value)
        for path in files.iterdir():
            store.put(f"{path.suffix[1:]}/{path.stem}/data{path.suffix}", path.read_bytes())
        store.put("header/train/data.csv", "label,a,b\n1,2,3\n")
        store.put("empty/train/_SUCCESS", "")
        yield store


@pytest.fixture(scope="module")
def server(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("serve") / "folder", store.address, "--slots", "2", python=TREES)
    try:
        yield server
    finally:
        server.end()


def start(
    server: Server, name: str, parameters: dict[str, str], kind: str, content: str | None = None, **members: Any
) -> None:
    channels = [
        {
            "ChannelName": channel,
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"{ROOT}/{kind}/{channel}/"}},
            **({"ContentType": content} if content else {}),
        }
        for channel in (("train",) if kind in ("header", "empty") else ("train", "validation"))
    ]
    request = {
        "AlgorithmSpecification": {"TrainingImage": IMAGE, "TrainingInputMode": "File"},
        "InputDataConfig": channels,
        "HyperParameters": parameters,
    }
    create(server.client(), name, "", {}, **request | members)


def log(server: Server, name: str) -> str:
    return (server.folder / "jobs" / name / "job.log").read_text()


def rounds(text: str) -> list[list[str]]:
    return [line.split("#011") for line in text.splitlines() if line.startswith("[") and "#011" in line]


def test_a_job_with_rules_and_report_trains_as_xgboost_does(
    server: Server, store: Store, files: Path, tmp_path: Path
) -> None:
    names = ("metrics", "feature_importance", "average_shap", "full_shap", "labels", "predictions", "hyperparameters")
    start(
        server,
        "csv",
        PARAMETERS,
        "csv",
        "text/csv; label_size=1",
        DebugHookConfig={
            "S3OutputPath": ROOT,
            "CollectionConfigurations": [
                {"CollectionName": name, "CollectionParameters": {"save_interval": "5"}} for name in (*names, "trees")
            ],
        },
        DebugRuleConfigurations=[
            rule("LossNotDecreasing", collection_names="metrics", num_steps="10"),
            rule("CreateXgboostReport"),
        ],
        ProfilerConfig={"S3OutputPath": ROOT},
        ProfilerRuleConfigurations=[rule("ProfilerReport")],
    )
    job = ended(server.client(), "csv")
    assert (job["TrainingJobStatus"], job.get("FailureReason")) == ("Completed", None)
    assert (statuses(job)["LossNotDecreasing"], statuses(job)["CreateXgboostReport"]) == ("NoIssuesFound",) * 2
    assert b"<html" in store.read("out/csv/rule-output/CreateXgboostReport/xgboost_report.html")
    assert list(store.archive("out/csv/output/model.tar.gz")) == ["xgboost-model"]
    model = tmp_path / "xgboost-model"
    model.write_bytes(store.archive("out/csv/output/model.tar.gz")["xgboost-model"])
    words = [TREES, "-c", ALONE, str(files / "train.csv"), str(files / "validation.csv"), str(model)]
    alone = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    assert alone["same"][0] == alone["same"][1]
    text = log(server, "csv")
    assert "Train matrix has 300 rows and 5 columns" in text
    lines = rounds(text)
    assert [line[0] for line in lines] == [f"[{number}]" for number in range(25)]
    assert [line[1] for line in lines] == [f"train-rmse:{value:.5f}" for value in alone["rmse"]]
    assert lines[0][2].startswith("validation-rmse:")
    trial = create_trial(f"{ROOT}/csv/debug-output")
    assert trial.tensor_names(collection="metrics") == ["train-rmse", "validation-rmse"]
    assert trial.tensor("train-rmse").value(20).item() == pytest.approx(alone["rmse"][20])
    for name in names[1:]:
        assert trial.tensor_names(collection=name), name
    assert trial.tensor("labels").value(5).reshape(-1) == pytest.approx(table(100, 2)[:, 0])
    assert "hyperparameters/max_depth" in trial.tensor_names(collection="hyperparameters")


@pytest.mark.parametrize(
    ("kind", "content"),
    [("libsvm", None), ("parquet", "application/x-parquet"), ("recordio", "application/x-recordio-protobuf")],
)
def test_every_format_gives_the_same_metrics(server: Server, kind: str, content: str | None) -> None:
    start(server, kind, PARAMETERS | {"num_round": "3"}, kind, content)
    start(server, f"{kind}-csv", PARAMETERS | {"num_round": "3"}, "csv", "csv")
    for name in (kind, f"{kind}-csv"):
        assert ended(server.client(), name)["TrainingJobStatus"] == "Completed", log(server, name)
    assert rounds(log(server, kind)) == rounds(log(server, f"{kind}-csv"))
    assert len(rounds(log(server, kind))) == 3


def test_a_rule_stops_the_training_and_checkpoints_continue_it(server: Server, store: Store) -> None:
    stop = '{\\"name\\": \\"stoptraining\\"}'
    spot = {"CheckpointConfig": {"S3Uri": f"{ROOT}/checkpoints"}}
    start(
        server,
        "stalled",
        PARAMETERS | {"eta": "0", "num_round": "1000000", "save_model_on_termination": "true"},
        "libsvm",
        "libsvm",
        DebugHookConfig={
            "S3OutputPath": ROOT,
            "CollectionConfigurations": [{"CollectionName": "metrics", "CollectionParameters": {"save_interval": "1"}}],
        },
        DebugRuleConfigurations=[
            rule("LossNotDecreasing", collection_names="metrics", num_steps="10", action_json=stop)
        ],
        **spot,
    )
    job = ended(server.client(), "stalled")
    assert (job["TrainingJobStatus"], statuses(job)) == ("Stopped", {"LossNotDecreasing": "IssuesFound"})
    assert list(store.archive("out/stalled/output/model.tar.gz")) == ["xgboost-model"]
    saved = sorted(int(key.rpartition(".")[2]) for key in store.keys("checkpoints/"))
    assert saved == list(range(saved[-1] - 4, saved[-1] + 1))
    start(server, "resumed", PARAMETERS | {"num_round": str(saved[-1] + 4)}, "libsvm", "libsvm", **spot)
    assert ended(server.client(), "resumed")["TrainingJobStatus"] == "Completed"
    text = log(server, "resumed")
    assert f"Resuming from iteration {saved[-1] + 1}" in text
    assert [line[0] for line in rounds(text)] == [f"[{number}]" for number in range(saved[-1] + 1, saved[-1] + 4)]


FAILURES: Final = {
    "no-rounds": ({"eta": "0.1"}, "csv", "csv", "Missing required hyperparameter: num_round"),
    "too-fast": (PARAMETERS | {"eta": "3"}, "csv", "csv", "Hyperparameter eta: 3 is not in [0, 1]"),
    "unknown": (PARAMETERS | {"epochs": "3"}, "csv", "csv", "Extraneous hyperparameter found: epochs"),
    "json": (PARAMETERS, "csv", "application/json", "application/json is not an accepted ContentType: csv, "),
    "no-svm": (PARAMETERS, "csv", "libsvm", "First line '"),
    "header": (PARAMETERS, "header", "csv", "First line 'label,a,b...' of file 'data.csv': not a CSV of numbers"),
    "empty": (PARAMETERS, "empty", "csv", "No data in training channel path "),
    "labels": (
        PARAMETERS | {"objective": "binary:logistic"},
        "csv",
        "csv",
        "ClientError: label must be in (0, 1)",
    ),
}


def test_what_the_user_can_correct_is_said_in_one_line(server: Server) -> None:
    for name, (parameters, kind, content, _) in FAILURES.items():
        start(server, name, parameters, kind, content)
    for name, (*_, message) in FAILURES.items():
        job = ended(server.client(), name)
        reason = job["FailureReason"]
        assert job["TrainingJobStatus"] == "Failed"
        assert (reason.startswith("ClientError: "), reason.endswith(", exit code: 1")) == (True, True), reason
        assert message in reason
        assert "\n" not in reason


def test_the_image_of_lightgbm_trains_as_lightgbm_does(server: Server, store: Store, files: Path) -> None:
    parameters = {"num_boost_round": "5", "learning_rate": "0.2", "num_leaves": "7", "objective": "regression"}
    specification = {"TrainingImage": "lightgbm:4", "TrainingInputMode": "File"}
    hook = {"S3OutputPath": ROOT, "CollectionConfigurations": [{"CollectionName": "feature_importance"}]}
    start(server, "light", parameters, "csv", "csv", AlgorithmSpecification=specification, DebugHookConfig=hook)
    start(server, "wrong", parameters | {"num_leaves": "1"}, "csv", "csv", AlgorithmSpecification=specification)
    assert ended(server.client(), "light")["TrainingJobStatus"] == "Completed", log(server, "light")
    model = store.archive("out/light/output/model.tar.gz")["model.txt"].decode()
    words = [TREES, "-c", LIGHT, str(files / "train.csv")]
    alone = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    assert model.partition("\nparameters:")[0] == alone["model"].partition("\nparameters:")[0]
    assert [line[1] for line in rounds(log(server, "light"))] == [f"train-l2:{value:.5f}" for value in alone["l2"]]
    assert create_trial(f"{ROOT}/light/debug-output").tensor_names(collection="feature_importance")
    reason = ended(server.client(), "wrong")["FailureReason"]
    assert reason == "ClientError: Hyperparameter num_leaves: 1 is not in [2, 131072], exit code: 1"
