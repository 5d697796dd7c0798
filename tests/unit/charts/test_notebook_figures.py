"""Notebook API: charts of a run, of an interval, and of missing data."""

from __future__ import annotations

import importlib
import itertools
import json
import pkgutil
import random
import subprocess
import sys

import every_figure
import plotly.graph_objects as go
import pytest
from every_figure import Made

from leadline import charts
from leadline.charts import notebook
from leadline.charts.catalog import CATALOG
from leadline.errors import ConfigurationError, NotCapturedError, UnknownNameError
from leadline.reader.run import open_run
from leadline.testing.runs import START_NS, RunWriter

PUBLIC = (*CATALOG, *notebook.__all__)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Made:
    return every_figure.write_run(str(tmp_path_factory.mktemp("face") / "run"))


def lines(fig: go.Figure) -> list[str]:
    """Return the series of a chart without bands."""
    return [each.name for each in fig.data if each.fill != "toself"]


def test_no_chart_has_the_name_of_a_module() -> None:
    """A module of the same name would hide the function."""
    modules = {each.name for each in pkgutil.iter_modules(charts.__path__)}
    assert modules & set(PUBLIC) == set()


def test_importing_charts_loads_nothing_before_first_use() -> None:
    code = "import sys, leadline.charts; print([m for m in ('plotly', 'numpy', 'pyarrow') if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_without_plotly_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['plotly'] = None\n"
        "from leadline import charts\n"
        "from leadline.errors import MissingExtraError\n"
        "try:\n    charts.heat_map\nexcept MissingExtraError as error:\n    print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'leadline[ui]'" in said.stdout


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="heat_maps"):
        importlib.import_module("leadline.charts").heat_maps  # noqa: B018
    assert set(PUBLIC) <= set(dir(charts))


def test_system_metric_charts(made: Made) -> None:
    assert len(lines(charts.metrics_over_time(made.run, "gpu"))) == 4
    assert len(lines(charts.metrics_over_time(made.run, "cpu", devices="core0", node="algo-1"))) == 1
    assert charts.metrics_over_time(made.run, "tpu").layout.meta["empty"] == "tpu not sampled in this interval"
    assert len(charts.metrics_histogram(made.run, devices=["core0", "core1"]).data) == 4
    assert len(charts.heat_map(made.run, node="algo-2").data[0].y) == 6


def test_an_interval_by_time_and_by_step(made: Made) -> None:
    line = charts.metrics_over_time(made.run, devices="total", node="algo-1", start="10s", end="20s").data[0]
    assert line.x.min() >= START_NS / 1e6 + 9_000
    assert line.x.max() <= START_NS / 1e6 + 21_000
    with pytest.raises(ConfigurationError, match="start 20s is not before end 10s"):
        charts.heat_map(made.run, start="20s", end="10s")
    with pytest.raises(ConfigurationError, match="start 'soon'"):
        charts.selection(made.run, "soon")
    with pytest.raises(NotCapturedError, match="the run has no such step"):
        charts.selection(made.run, 5000)


def test_a_selection_returns_the_time_breakdown(made: Made) -> None:
    whole, part = charts.selection(made.run), charts.selection(made.run, 60, 70, worker="rank0-7")
    assert sum(whole.shares.values()) == pytest.approx(1.0)
    assert part.steps == 10
    rows = made.run.timeline("step", worker="rank0-7", start_step=60, end_step=70)
    assert sum(part.seconds.values()) == pytest.approx(sum(rows["duration_ns"].to_pylist()) / 1e9, rel=1e-6)
    assert part.seconds["forward"] == pytest.approx(
        sum(made.run.timeline("forward", worker="rank0-7", start_step=60, end_step=70)["duration_ns"].to_pylist())
        / 1e9,
        rel=1e-6,
    )
    assert part.figure().data
    assert charts.selection(made.run, 48, 53, worker="rank0-7").shares["data"] > 0.4  # the slow load of step 50


def test_the_timeline_has_the_requested_steps(made: Made) -> None:
    assert charts.step_timeline(made.run, 12).data[0].x.tolist() == list(range(188, 200))
    assert charts.step_timeline(made.run, 3, worker="rank1-8", end=50).data[0].x.tolist() == [47, 48, 49]


def test_system_metrics_and_training_share_one_axis(made: Made) -> None:
    fig = charts.timeline_charts(made.run)
    assert {each.xaxis for each in fig.data} == {"x"}
    assert {each.yaxis for each in fig.data} == {"y", "y2", "y3", "y4"}
    domains = [tuple(axis.domain) for axis in fig.select_yaxes()]
    for (low, high), (below, above) in itertools.pairwise(domains):
        assert 0 <= below < above < low < high <= 1


def test_tensors(made: Made) -> None:
    run = made.run
    assert len(charts.losses(run).data) == 4  # three ranks, and the marks of what is not finite
    assert charts.scalar(run, "nothing").layout.meta["empty"] == "no value of nothing was captured"
    assert charts.tensor(run, "gradient/block.0.weight", worker="rank0-7").data[0].y[0] == pytest.approx(1e-6)
    assert charts.histogram(run, "fc.weight").data[0].z.shape == (60, 10)
    assert len(charts.histogram(run, "fc.weight", is_ridge=True).data) == 10
    assert sum(charts.value(run, "fc.weight", 40).data[0].y) == 128
    assert "the nearest steps are 20, 40" in charts.value(run, "fc.weight", 41).layout.meta["empty"]
    assert list(charts.layers(run).data[0].y) == [f"gradient/block.{at}.weight" for at in range(4)]
    with pytest.raises(NotCapturedError):
        charts.histogram(run, "nothing")


def test_two_runs_of_one_name_have_different_labels(made: Made, tmp_path) -> None:
    other = every_figure.write_run(str(tmp_path / "run"))
    names = {each.name for each in charts.compare(made.run, other.run, "loss", worker="rank0-7").data}
    assert {"run", "run (2)"} <= names


def test_missing_data_of_a_run_is_shown_as_a_message(tmp_path) -> None:
    run = open_run(RunWriter(tmp_path / "empty").end().path)
    shown = [
        charts.metrics_over_time(run),
        charts.metrics_histogram(run),
        charts.heat_map(run),
        charts.step_durations(run),
        charts.step_histogram(run),
        charts.step_timeline(run),
        charts.progress(run),
        charts.job(run),
        charts.rank_times(run),
        charts.timeline_charts(run),
        charts.losses(run),
        charts.layers(run),
        charts.top_operators(run),
        charts.call_tree(run),
    ]
    assert [each.layout.meta["empty"] for each in shown if each.data] == []
    assert "leadline profile --detailed" in charts.top_operators(run).layout.meta["empty"]
    assert charts.selection(run).shares == {}
    with pytest.raises(NotCapturedError):
        charts.functions_by_step(run)
    with pytest.raises(UnknownNameError):
        charts.functions_by_step(run, kind="cprofiler")


def test_a_growing_run_is_drawn_again(tmp_path) -> None:
    parts = every_figure._rank(random.Random(1), 0)
    writer = RunWriter(tmp_path / "run", batch_rows=1)
    writer.write_all(parts[: len(parts) // 2])
    run = open_run(writer.path)
    before = charts.progress(run).data[0].y[-1]
    writer.write_all(parts[len(parts) // 2 :])
    run.refresh()
    assert charts.progress(run).data[0].y[-1] > before


def test_the_merged_timeline_is_a_trace(made: Made, tmp_path) -> None:
    told = charts.merged_timeline(made.run, tmp_path / "trace.json", start=10, end=20)
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert told.slices == sum(each["ph"] == "X" for each in trace["traceEvents"])
    assert told.slices > 0


def test_charts_are_plotly_figures(made: Made) -> None:
    assert isinstance(charts.job(made.run), go.Figure)
