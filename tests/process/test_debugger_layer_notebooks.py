"""Scenarios of SageMaker Debugger's notebooks for Keras and MXNet, and of its profiler, through ``leadline serve``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from amazon import CREDENTIALS, REGION
from launching import MXNET
from serving import BUCKET, LOOK_SECONDS, Server, Store, create, ended, rule, s3_store, statuses

from leadline.compat.smdebug import create_trial, modes
from leadline.compat.smdebug.exceptions import RuleEvaluationConditionMet, TensorUnavailableForStep
from leadline.compat.smdebug.profiler.analysis.notebook_utils.heatmap import Heatmap
from leadline.compat.smdebug.profiler.analysis.notebook_utils.metrics_histogram import MetricsHistogram
from leadline.compat.smdebug.profiler.analysis.notebook_utils.step_histogram import StepHistogram
from leadline.compat.smdebug.profiler.analysis.notebook_utils.step_timeline_chart import StepTimelineChart
from leadline.compat.smdebug.profiler.analysis.notebook_utils.timeline_charts import TimelineCharts
from leadline.compat.smdebug.profiler.analysis.notebook_utils.training_job import TrainingJob
from leadline.compat.smdebug.profiler.analysis.python_profile_analysis import cProfileAnalysis
from leadline.compat.smdebug.profiler.analysis.utils.merge_timelines import MergedTimeline, MergeUnit
from leadline.compat.smdebug.profiler.analysis.utils.pandas_data_analysis import PandasFrameAnalysis
from leadline.compat.smdebug.profiler.analysis.utils.profiler_data_to_pandas import PandasFrame
from leadline.compat.smdebug.profiler.analysis.utils.python_profile_analysis_utils import Metrics
from leadline.compat.smdebug.profiler.python_profile_utils import PythonProfileModes, StepPhase
from leadline.compat.smdebug.rules import Rule, invoke_rule

pytestmark = pytest.mark.slow
TENSORFLOW: Final = str(Path(__file__).parents[2] / ".venvs" / "tensorflow" / "bin" / "python")
ROOT: Final = f"s3://{BUCKET}"
BOTTLENECK: Final = "convolutionalautoencoder0_hybridsequential0_dense0_output_0"
LABEL: Final = "convolutionalautoencoder0_input_1"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with s3_store("debugger_layers.py", "debugger_gluon.py") as store, pytest.MonkeyPatch.context() as patch:
        variables = {"AWS_ENDPOINT_URL_S3": store.address, "LEADLINE_CACHE": str(tmp_path_factory.mktemp("cache"))}
        for name, value in (CREDENTIALS | variables).items():
            patch.setenv(name, value)
        store.put("data/train/none.txt", "the scripts make their data")
        yield store


@pytest.fixture(scope="module")
def server(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("serve") / "folder", store.address, "--slots", "1")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL_SAGEMAKER", server.address)
            yield server
    finally:
        server.end()


def collection(name: str, **parameters: str) -> dict[str, Any]:
    return {"CollectionName": name, "CollectionParameters": parameters}


def in_process_of(python: str, program: str, *arguments: str) -> dict[str, Any]:
    entry = {"TrainingImage": "framework:1", "TrainingInputMode": "File", "ContainerEntrypoint": [python, program]}
    return {"AlgorithmSpecification": entry | ({"ContainerArguments": list(arguments)} if arguments else {})}


@pytest.fixture(scope="module")
def sagemaker(server: Server) -> Any:
    """A client; the jobs are created, and run one after the other."""
    sagemaker = server.client()
    entire = {
        "S3OutputPath": ROOT,
        "HookParameters": {"save_interval": "4"},
        "CollectionConfigurations": [
            collection("weights"),
            collection("biases", save_interval="2", end_step="10"),
            collection("gradients"),
        ],
    }
    windows = {
        "DetailedProfilingConfig": '{"StartStep": 5, "NumSteps": 3}',
        "DataloaderProfilingConfig": '{"StartStep": 5, "NumSteps": 2}',
        "PythonProfilingConfig": '{"StartStep": 9, "NumSteps": 1, "ProfilerName": "cprofile"}',
    }
    create(
        sagemaker,
        "layers",
        "debugger_layers.py",
        {},
        **in_process_of(TENSORFLOW, "debugger_layers.py", "--epoch", "2", "--sleep", "0.4"),
        DebugHookConfig=entire,
        DebugRuleConfigurations=[rule("VanishingGradient"), rule("Overfit")],
        ProfilerConfig={
            "S3OutputPath": ROOT,
            "ProfilingIntervalInMilliseconds": 100,
            "ProfilingParameters": windows,
        },
        ProfilerRuleConfigurations=[rule("ProfilerReport")],
    )
    regex = f".*{BOTTLENECK}|.*{LABEL}|.*loss|.*conv0.*"
    autoencoder = {
        "S3OutputPath": ROOT,
        "CollectionConfigurations": [collection("all", include_regex=regex, save_interval="2")],
    }
    create(
        sagemaker,
        "gluon",
        "debugger_gluon.py",
        {},
        **in_process_of(MXNET, "debugger_gluon.py"),
        DebugHookConfig=autoencoder,
    )
    create(
        sagemaker,
        "endless",
        "debugger_gluon.py",
        {},
        **in_process_of(MXNET, "debugger_gluon.py", "--num_epochs", "100000000"),
        DebugHookConfig={"S3OutputPath": ROOT, "CollectionConfigurations": [collection("losses", save_interval="20")]},
    )
    return sagemaker


def test_an_autoencoder_of_mxnet_is_followed(sagemaker: Any) -> None:
    trial, seen, has_ended = create_trial(f"{ROOT}/gluon/debug-output"), {}, False
    while not has_ended:
        time.sleep(LOOK_SECONDS)
        has_ended = trial.loaded_all_steps
        for step in set(trial.steps(mode=modes.EVAL)) - set(seen):
            try:
                inside = trial.tensor(BOTTLENECK).value(step_num=step, mode=modes.EVAL)
                label = trial.tensor(LABEL).value(step_num=step, mode=modes.EVAL)
                made = trial.tensor("l2loss0_input_0").value(step_num=step, mode=modes.EVAL)
                given = trial.tensor("l2loss0_input_1").value(step_num=step, mode=modes.EVAL)
            except TensorUnavailableForStep:
                continue
            seen[step] = (inside.shape, label.tolist(), made.shape, given.shape)
    images = (32, 1, 8, 8)
    # two epochs of two batches; every second step of the evaluation
    assert seen == {step: ((32, 5), [number % 10 for number in range(32)], images, images) for step in (0, 2)}
    names = trial.tensor_names(regex="conv0_(weight|output)")
    prefix = "convolutionalautoencoder0_hybridsequential0_conv0"
    assert {f"{prefix}_weight", f"{prefix}_output_0"} <= set(names)
    assert ended(sagemaker, "gluon")["TrainingJobStatus"] == "Completed"


def test_keras_without_a_hook_has_its_collections(sagemaker: Any, store: Store) -> None:
    job = ended(sagemaker, "layers")
    assert job["TrainingJobStatus"] == "Completed"
    assert statuses(job)["VanishingGradient"] == "NoIssuesFound"
    trial = create_trial(f"{ROOT}/layers/debug-output")
    weights, biases = (trial.tensor_names(collection=name) for name in ("weights", "biases"))
    assert [name for name in weights if "kernel" in name] == weights != []
    assert trial.tensor(weights[0]).steps(modes.TRAIN)[:3] == [0, 4, 8]
    assert {0, 2, 4, 6, 8} <= set(trial.tensor(biases[0]).steps(modes.TRAIN))
    (accuracy,) = (name for name in trial.tensor_names(collection="metrics") if name.endswith("accuracy"))
    for name in ("loss", accuracy):
        trained, evaluated = (trial.tensor(name).steps(mode) for mode in (modes.TRAIN, modes.EVAL))
        assert len(trained) > 2
        assert all(np.isfinite(trial.tensor(name).value(step, mode=modes.TRAIN)).all() for step in trained)
        assert evaluated
    report = store.read("out/layers/rule-output/ProfilerReport/profiler-output/profiler-report.html")
    assert b"<html" in report


def test_a_job_is_analysed_interactively(sagemaker: Any, tmp_path: Path) -> None:
    ended(sagemaker, "layers")
    job = TrainingJob("layers", REGION)
    job.wait_for_sys_profiling_data_to_be_available()
    job.wait_for_framework_profiling_data_to_be_available()
    frame = PandasFrame(job.profiler_s3_output_path)
    system = frame.get_all_system_metrics()
    steps = frame.get_all_framework_metrics(selected_framework_metrics=["Step:ModeKeys.TRAIN", "Step:ModeKeys.GLOBAL"])
    assert len(steps) == 32
    seconds = (steps["end_time_us"] - steps["start_time_us"]).to_numpy() / 1e6
    slow = [4, 5, 6, 7, 20, 21, 22, 23]  # a callback sleeps before their batches
    assert seconds[slow].min() > 0.4 > np.median(seconds)
    statistics = PandasFrameAnalysis(system, steps).get_job_statistics()
    parts = ("initialization", "training_loop_duration", "finalization")
    assert sum(statistics[part] for part in parts) == pytest.approx(statistics["job_duration"], rel=0.01)

    profiles = cProfileAnalysis(local_profile_dir=str(tmp_path), s3_path=job.profiler_s3_output_path)
    assert len(profiles.list_profile_stats())
    of_step = profiles.fetch_profile_stats_by_step(
        start_step=9,
        end_step=10,
        start_phase=StepPhase.STEP_START,
        end_phase=StepPhase.STEP_START,
        mode=PythonProfileModes.TRAIN,
    )
    of_step.print_top_n_functions(Metrics.CUMULATIVE_TIME, n=10)
    assert len(of_step.get_function_stats()) > 10

    metrics, events = job.get_systems_metrics_reader(), job.get_framework_metrics_reader()
    metrics.refresh_event_file_list()
    histogram = MetricsHistogram(metrics)
    histogram.plot(endtime=metrics.get_timestamp_of_latest_available_file(), select_dimensions=["CPU", "GPU"])
    of_steps = StepHistogram(events)
    of_steps.plot()
    charts = TimelineCharts(metrics, events, select_dimensions=["CPU", "GPU"], select_events=["total"])
    for chart in (histogram, of_steps, StepTimelineChart(events), charts, Heatmap(metrics, plot_height=450)):
        assert chart.figures

    samples = {event.timestamp for event in metrics.get_events(0, 2**53, event_type="cpu")}
    spent = charts.find_time_annotations([0, len(samples) - 1])
    assert {name for name in spent if name.startswith("Step:ModeKeys.TRAIN_")}
    assert spent["Step:ModeKeys.TRAIN_4"] == pytest.approx(1000 * seconds[4], rel=0.05)
    charts.plot_detailed_profiler_data([0, len(samples) - 1])
    assert charts.figures
    MergedTimeline(job.profiler_s3_output_path, output_directory=str(tmp_path)).merge_timeline(1, 10, MergeUnit.STEP)
    assert list(tmp_path.glob("*merged_timeline.json"))


class Always(Rule):
    def invoke_at_step(self, step: int) -> bool:
        return bool(self.base_trial.tensor_names(collection="losses", step=step))


def test_a_rule_in_a_notebook_stops_the_job(sagemaker: Any) -> None:
    for name in ("layers", "gluon"):
        ended(sagemaker, name)
    trial = create_trial(f"{ROOT}/endless/debug-output")
    stop = '{"name": "StopTraining", "training_job_prefix": "endl"}'
    with pytest.raises(RuleEvaluationConditionMet):
        invoke_rule(Always(trial, stop), raise_eval_cond=True)
    assert ended(sagemaker, "endless")["TrainingJobStatus"] == "Stopped"
