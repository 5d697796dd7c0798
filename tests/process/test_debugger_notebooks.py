"""Scenarios of SageMaker Debugger's example notebooks, small and on the CPU, through ``leadline serve``.

Jobs are created by CreateTrainingJob; scripts, rules and readers import smdebug, which is Leadline's.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from amazon import CREDENTIALS
from serving import BUCKET, LOOK_SECONDS, Server, Store, create, ended, rule, s3_store, statuses

from leadline.compat.smdebug import create_trial, modes
from leadline.compat.smdebug.exceptions import NoMoreData, RuleEvaluationConditionMet
from leadline.compat.smdebug.rules import Rule, invoke_rule
from leadline.compat.smdebug.trials import Trial

pytestmark = pytest.mark.slow
ROOT: Final = f"s3://{BUCKET}"
SPOT: Final = {"CheckpointConfig": {"S3Uri": f"{ROOT}/checkpoints"}, "EnableManagedSpotTraining": True}
ENDLESS: Final = {"epochs": "100000000", "pause": "0.02"}
CUSTOM_RULE: Final = """
from smdebug.rules.rule import Rule


class CustomGradientRule(Rule):
    def __init__(self, base_trial, threshold=10.0):
        super().__init__(base_trial)
        self.threshold = float(threshold)

    def invoke_at_step(self, step):
        for name in self.base_trial.tensor_names(collection="gradients"):
            abs_mean = self.base_trial.tensor(name).reduction_value(step, "mean", abs=True)
            if abs_mean > self.threshold:
                print(f"{name} has a mean of {abs_mean} at step {step}", flush=True)
                return True
        return False
"""


def collection(name: str, **parameters: str) -> dict[str, Any]:
    named = {key.replace("__", "."): value for key, value in parameters.items()}
    return {"CollectionName": name, "CollectionParameters": named}


def hook(*collections: dict[str, Any], **parameters: str) -> dict[str, Any]:
    named = {key.replace("__", "."): value for key, value in parameters.items()}
    return {"S3OutputPath": ROOT, "CollectionConfigurations": list(collections), "HookParameters": named}


def profiled(*rules: dict[str, Any]) -> dict[str, Any]:
    return {
        "ProfilerConfig": {"S3OutputPath": ROOT, "ProfilingIntervalInMilliseconds": 500},
        "ProfilerRuleConfigurations": list(rules) or [rule("ProfilerReport")],
    }


def debugged(config: dict[str, Any], *rules: dict[str, Any]) -> dict[str, Any]:
    return {"DebugHookConfig": config, "DebugRuleConfigurations": list(rules)}


def trial_of(job: str) -> Trial:
    return create_trial(f"{ROOT}/{job}/debug-output")


class StoppingHandler:
    """What a Lambda of the notebooks does: stops the job of an event in which a rule has found something."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self.stopped: list[str] = []
        handler = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()
                handler.handle(event)

            def log_message(self, *_: object) -> None:
                return

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def handle(self, event: dict[str, Any]) -> None:
        detail = event["detail"]
        found = [row["RuleEvaluationStatus"] for row in detail["DebugRuleEvaluationStatuses"]]
        name = detail["TrainingJobName"]
        if self.server and "handled" in detail["Tags"] and "IssuesFound" in found and name not in self.stopped:
            self.stopped.append(name)
            self.server.client().stop_training_job(TrainingJobName=name)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The S3 server, which this process uses as well: trials are read from there."""
    with s3_store("debugger_images.py") as store, pytest.MonkeyPatch.context() as patch:
        variables = {"AWS_ENDPOINT_URL_S3": store.address, "LEADLINE_CACHE": str(tmp_path_factory.mktemp("cache"))}
        for name, value in (CREDENTIALS | variables).items():
            patch.setenv(name, value)
        store.put("data/train/none.txt", "the scripts make their data")
        store.put("CustomGradientRule/custom_gradient_rule.py", CUSTOM_RULE)
        yield store


@pytest.fixture(scope="module")
def handler() -> Iterator[StoppingHandler]:
    handler = StoppingHandler()
    yield handler
    handler.close()


@pytest.fixture(scope="module")
def server(store: Store, handler: StoppingHandler, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serve") / "folder"
    server = handler.server = Server(folder, store.address, "--slots", "2", "--webhook", handler.url)
    try:
        yield server
    finally:
        server.end()


@pytest.fixture(scope="module")
def sagemaker(server: Server) -> Any:
    """A client; all jobs are created, and run one after the other."""
    sagemaker = server.client()
    images = "debugger_images.py"
    source = f"{ROOT}/CustomGradientRule/custom_gradient_rule.py"

    steps = {"train__save_interval": "4", "eval__save_interval": "1"}
    saliency = collection("custom_collection", include_regex="CrossEntropyLoss_input|Net_input|gradient/", **steps)
    imbalance = rule(
        "ClassImbalance",
        labels_regex="CrossEntropyLoss_input_1",
        predictions_regex="CrossEntropyLoss_input_0",
        argmax="True",
    )
    saved = hook(saliency, collection("losses", save_interval="1"))
    parameters = {"epochs": "6", "saliency": "yes", "shares": '"30,1,1,1"', "samples": "512", "sleep": "0.5"}
    create(sagemaker, "saliency", images, parameters, **debugged(saved, imbalance))

    stopping = debugged(
        hook(collection("gradients", save_interval="5"), collection("losses", save_interval="5")),
        rule("VanishingGradient"),
        rule("LossNotDecreasing"),
    )
    create(
        sagemaker, "handled", images, {"init": "faint"} | ENDLESS, Tags=[{"Key": "handled", "Value": "yes"}], **stopping
    )

    stall = rule("StalledTrainingRule", threshold="3", training_job_name_prefix="stalled", stop_training_on_fire="True")
    stalling = debugged(hook(collection("losses", save_interval="1")), stall)
    create(sagemaker, "stalled", images, {"epochs": "2", "sleep": "600"}, **SPOT, **stalling)

    gradients = hook(collection("gradients", save_interval="5"))
    custom = [
        rule("CustomGradientRule", "CustomRule", threshold="20.0", source_s3_uri=source),
        rule("CustomGradientRule", "HigherThreshold", threshold="1e30", source_s3_uri=source),
    ]
    create(
        sagemaker, "custom-rule", images, {"epochs": "3", "scale": "1000", "lr": "1e-6"}, **debugged(gradients, *custom)
    )

    modes_of_hook = hook(
        collection("losses", train__save_interval="5", eval__save_interval="1"), train__save_interval="100"
    )
    overfitting = debugged(
        modes_of_hook,
        rule("VanishingGradient"),
        rule("Overfit"),
        rule("Overtraining"),
        rule("PoorWeightInitialization"),
    )
    parameters = {"epochs": "40", "samples": "64", "noise": "0.5", "lr": "0.1", "momentum": "0.9", "batch-size": "16"}
    create(sagemaker, "overfitting", images, parameters, **overfitting, **profiled())

    everything = hook(collection("all", include_regex=".*", save_steps="1,2,3"))
    create(sagemaker, "good-init", images, {"epochs": "1"}, **debugged(everything))
    create(sagemaker, "bad-init", images, {"epochs": "1", "init": "uniform"}, **debugged(everything))

    return sagemaker


def test_12_saliency_maps_during_the_training(sagemaker: Any) -> None:
    trial, maps, has_ended = trial_of("saliency"), {}, False
    while not has_ended:
        time.sleep(LOOK_SECONDS)
        has_ended = trial.loaded_all_steps
        saved = trial.tensor("gradient/image").steps(modes.EVAL) if trial.has_tensor("gradient/image") else []
        for step in saved:
            if step not in maps:
                gradient = trial.tensor("gradient/image").value(step, mode=modes.EVAL)
                image = trial.tensor("Net_input_0").value(step, mode=modes.EVAL)
                maps[step] = np.abs(gradient).sum(1)
                assert gradient.shape == image.shape == (32, 1, 8, 8)
    assert sorted(maps) == list(range(12))  # six epochs of two batches
    assert all(saliency.max() > 0 for saliency in maps.values())
    assert {"gradient/relu0_output", "gradient/Net_output"} <= set(trial.tensor_names(mode=modes.EVAL))
    job = ended(sagemaker, "saliency")
    assert (job["TrainingJobStatus"], statuses(job)) == ("Completed", {"ClassImbalance": "IssuesFound"})


def test_3_an_event_handler_stops_the_job_whose_gradients_vanish(sagemaker: Any, handler: StoppingHandler) -> None:
    job = ended(sagemaker, "handled")
    assert (job["TrainingJobStatus"], handler.stopped) == ("Stopped", ["handled"])
    assert statuses(job)["VanishingGradient"] == "IssuesFound"


def test_4_a_stalled_job_is_stopped(sagemaker: Any) -> None:
    job = ended(sagemaker, "stalled")
    assert (job["TrainingJobStatus"], statuses(job)) == ("Stopped", {"StalledTrainingRule": "IssuesFound"})


def test_2_a_custom_rule_on_gradients(sagemaker: Any, server: Server) -> None:
    job = ended(sagemaker, "custom-rule")
    assert statuses(job) == {"CustomRule": "IssuesFound", "HigherThreshold": "NoIssuesFound"}
    arn = job["DebugRuleEvaluationStatuses"][0]["RuleEvaluationJobArn"]
    name = f"custom-rule-CustomRule-{arn[-8:]}"  # as the notebook makes the link to the log
    group = "/aws/sagemaker/ProcessingJobs"
    (stream,) = server.client("logs").describe_log_streams(logGroupName=group, logStreamNamePrefix=name)["logStreams"]
    events = server.client("logs").get_log_events(logGroupName=group, logStreamName=stream["logStreamName"])["events"]
    assert "has a mean of" in events[-1]["message"]


def test_8_overfitting_is_found_in_a_script_with_a_hook(sagemaker: Any, store: Store) -> None:
    job = ended(sagemaker, "overfitting")
    assert job["TrainingJobStatus"] == "Completed"
    found = statuses(job)
    assert (found["Overfit"], found["VanishingGradient"]) == ("IssuesFound", "NoIssuesFound")
    trial = trial_of("overfitting")
    loss = trial.tensor("CrossEntropyLoss_output_0")
    trained, evaluated = loss.steps(modes.TRAIN), loss.steps(modes.EVAL)
    assert set(range(0, 160, 5)) <= set(trained)  # and those that the rules need
    assert evaluated == list(range(160))
    assert loss.value(trained[-1], mode=modes.TRAIN) < loss.value(evaluated[-1], mode=modes.EVAL)
    report = store.read("out/overfitting/rule-output/ProfilerReport/profiler-output/profiler-report.html")
    assert b"<html" in report


class Variance(Rule):
    """The variance of the tensors of a kind is below a bound."""

    def __init__(self, base_trial: Trial, regex: str, least: float) -> None:
        super().__init__(base_trial)
        self.regex, self.least = regex, least
        self.values: dict[str, list[float]] = {}

    def set_required_tensors(self, step: int) -> None:
        for name in self.base_trial.tensor_names(regex=self.regex):
            self.req_tensors.add(name, steps=[step])

    def invoke_at_step(self, step: int) -> bool:
        for tensor in self.req_tensors.get():
            self.values.setdefault(tensor.name, []).append(float(np.var(tensor.value(step))))
        return any(values[-1] < self.least for values in self.values.values())


class DeadActivations(Variance):
    """Most of the outputs of a ReLU are zero."""

    def invoke_at_step(self, step: int) -> bool:
        for tensor in self.req_tensors.get():
            self.values.setdefault(tensor.name, []).append(float((tensor.value(step) == 0).mean()))
        return any(values[-1] > self.least for values in self.values.values())


class GradientsOfLayers(Variance):
    """The gradients of two layers differ by a large factor."""

    def invoke_at_step(self, step: int) -> bool:
        norms = {
            tensor.name: float(tensor.reduction_value(step, "mean", abs=True)) for tensor in self.req_tensors.get()
        }
        for name, norm in norms.items():
            self.values.setdefault(name, []).append(norm)
        return max(norms.values()) > self.least * min(norms.values())


def findings(job: str) -> dict[str, bool]:
    """Return what seven rules find that run here, as in the notebook, until there is no more data."""
    trial = trial_of(job)
    rules: dict[str, Rule] = {
        "weights": Variance(trial, r"Net_.*\.weight$", 1e-6),
        "gradients": Variance(trial, "^gradient/.*weight$", 1e-12),
        "biases": Variance(trial, "^gradient/.*bias$", 1e-12),
        "activation inputs": Variance(trial, r"relu\d_input", 1e-3),
        "activation outputs": Variance(trial, r"relu\d_output", 1e-4),
        "dead activations": DeadActivations(trial, r"relu\d_output", 0.95),
        "layers": GradientsOfLayers(trial, "^gradient/.*weight$", 100.0),
    }
    found = {}
    for name, one in rules.items():
        try:
            invoke_rule(one, raise_eval_cond=True)
        except RuleEvaluationConditionMet:
            found[name] = True
        except NoMoreData:
            found[name] = False
        assert one.values  # type: ignore[attr-defined]
    return found


def test_16_a_good_and_a_bad_initialization_differ(sagemaker: Any) -> None:
    for name in ("good-init", "bad-init"):
        assert ended(sagemaker, name)["TrainingJobStatus"] == "Completed"
    good, bad = findings("good-init"), findings("bad-init")
    assert not any(good.values()), good
    assert any(bad.values()), bad


def test_17_the_artifacts_are_copied_and_read_locally(sagemaker: Any, store: Store, tmp_path: Path) -> None:
    ended(sagemaker, "good-init")
    store.fetch("good-init/debug-output/", tmp_path / "trial")
    trial = create_trial(str(tmp_path / "trial"))
    assert trial.steps(modes.TRAIN) == [0, 1, 2, 3]  # step 0 by the default interval
    names = trial.tensor_names()
    layers = ("conv1", "relu0", "fc1", "relu1", "fc2")
    wanted = {f"{layer}_{side}_0" for layer in layers for side in ("input", "output")}
    parameters = [f"Net_{layer}.{part}" for layer in layers[::2] for part in ("weight", "bias")]
    wanted |= {f"{kind}{name}" for kind in ("", "gradient/") for name in parameters}
    assert wanted <= set(names)
    for name in wanted:
        for step in (1, 2, 3):
            assert trial.tensor(name).value(step, mode=modes.TRAIN).size > 0
    assert trial.tensor("relu0_output_0").value(1, mode=modes.TRAIN).shape == (32, 8, 6, 6)


def test_18_and_30_a_job_made_by_hand_goes_on_from_the_checkpoints_of_another(
    sagemaker: Any, server: Server, store: Store
) -> None:
    ended(sagemaker, "stalled")
    assert store.keys("checkpoints/") == ["checkpoints/last.pt"]
    settings = hook(collection("gradients"), train__save_interval="4", eval__save_interval="1")
    epochs = rule("LossNotDecreasing", num_steps="16", mode="TRAIN")  # the same batch, two epochs before
    debugging = debugged(settings, epochs)
    create(sagemaker, "resumed", "debugger_images.py", {"epochs": "8"}, **SPOT, **debugging, **profiled())
    job = ended(sagemaker, "resumed")
    assert (job["TrainingJobStatus"], job["EnableManagedSpotTraining"]) == ("Completed", True)
    assert statuses(job) == {"LossNotDecreasing": "NoIssuesFound", "ProfilerReport": "NoIssuesFound"}
    assert "first epoch 1" in (server.folder / "jobs" / "resumed" / "job.log").read_text()
    trial = trial_of("resumed")
    assert trial.tensor("gradient/Net_fc1.weight").steps(modes.TRAIN)[:3] == [0, 4, 8]
    name = "CrossEntropyLoss_output_0"
    first = trial_of("stalled").tensor(name).value(0, mode=modes.TRAIN)
    assert trial.tensor(name).value(0, mode=modes.TRAIN) < first
    keys = store.keys("out/resumed/rule-output/ProfilerReport/profiler-output/")
    assert {key.rpartition("/")[2] for key in keys} == {"profiler-report.html", "profiler-report.ipynb"}
