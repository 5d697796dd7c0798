"""Nodes page and its charts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from timelines import CPU, MEMORY, gpu, merge_by_time, sampled, training

from leadline.analysis.digest import Digest
from leadline.charts.system_charts import why_missing
from leadline.dashboard.pages.nodes import chosen, node_views
from leadline.reader.run import Run
from leadline.records.metric import Channel
from leadline.testing.runs import SECOND_NS, START_NS, RunWriter

Open = Callable[..., TestClient]


def cores(count: int) -> dict[Channel, list[float]]:
    return {Channel("cpu", f"core{each}", "utilization_percent"): [10.0 * each] * 20 for each in range(count)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two nodes: one with twelve cores and two GPUs, one with two cores; ten seconds of training."""
    first = sampled(
        {CPU: [40.0] * 20, MEMORY: [30.0] * 20, gpu(0): [90.0] * 20, gpu(1): [10.0] * 20, **cores(12)}, node="n2"
    )
    second = sampled({CPU: [20.0] * 20, **cores(2)}, node="n10")
    steps = training([{"data": 50.0, "forward": 20.0, "backward": 30.0}] * 100)
    writer = RunWriter(tmp_path / "first").write_all(merge_by_time(first, second, steps))
    writer.write_node("n2", cpu_count=12, gpus=[{"name": "H200"}] * 2)
    writer.write_node("n10", absent={"gpu": "no NVIDIA driver answers"})
    writer.end()
    return tmp_path


READ = Channel("disk", "total", "read_bytes_per_second")
IO_WAIT = Channel("cpu", "total", "iowait_percent")


def test_data_io_is_drawn_on_the_axis_above_the_phases(tmp_path: Path, open_dashboard: Open) -> None:
    for name, sensors in (("first", {CPU: [40.0] * 4, IO_WAIT: [9.0] * 4, READ: [1e6] * 4}), ("second", {CPU: [1.0]})):
        RunWriter(tmp_path / name).write_all(list(sampled(sensors))).end()
    client = open_dashboard(tmp_path)
    pages = [client.get(f"/runs/{name}/nodes").text for name in ("first", "second")]
    card = pages[0].partition('aria-label="System and framework metrics"')[2].partition("</section>")[0]
    charts = [line.partition('data-chart="')[2].partition('"')[0] for line in card.splitlines() if "data-chart" in line]
    assert charts == ["system_metrics", "metrics_over_time", "training_phases"]
    assert "kind=disk&metric=read_bytes_per_second,write_bytes_per_second" in card
    assert ["chart-disk" in page for page in pages] == [True, False]
    assert sorted(lines(chart(client, "system_metrics"))) == ["CPU", "I/O wait"]


def chart(client: TestClient, name: str, **query: Any) -> dict[str, Any]:
    answer = client.get(f"/runs/first/charts/{name}.json", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def lines(figure: dict[str, Any]) -> list[str]:
    return [each["name"] for each in figure["data"] if each.get("showlegend") is not False]


def test_nodes_are_labelled_in_natural_order(path: Path) -> None:
    run = Run(str(path / "first"))
    views = node_views(run, Digest(run))
    assert [each.label for each in views] == ["algo-1 (n2)", "algo-2 (n10)"]
    assert views[0].cores[-1] == "core11"
    assert views[0].gpus == ("gpu0", "gpu1")
    assert chosen(views, "n10") is views[1]
    assert chosen(views, "gone") is views[0]
    assert chosen([], None) is None
    assert why_missing(run, ["gpu"], "n10") == "no GPU on this node (no NVIDIA driver answers)"


def test_the_page_shows_the_requested_node(path: Path, open_dashboard: Open) -> None:
    client = open_dashboard(path)
    first, second = (client.get(f"/runs/first/nodes?node={each}").text for each in ("n2", "n10"))
    assert "12 cores" in first
    assert ">H200</span>" in first
    assert "mean of 12 cores" in first
    assert "no GPU on this node" in second
    assert "node=n10&amp;kind=cpu" in second


def test_the_mean_or_selected_devices_are_drawn(path: Path, open_dashboard: Open) -> None:
    client = open_dashboard(path)
    asked = {"kind": "cpu", "metric": "utilization_percent", "node": "n2"}
    assert lines(chart(client, "metrics_over_time", devices="total", **asked)) == ["all cores"]
    assert lines(chart(client, "metrics_over_time", devices="core2,core11", **asked)) == ["core 2", "core 11"]
    gpus = chart(client, "metrics_over_time", kind="gpu", metric="utilization_percent", node="n2", is_mean="1")
    assert lines(gpus) == ["mean"]
    told = chart(client, "metrics_over_time", kind="gpu", metric="utilization_percent", node="n10")
    assert told["layout"]["meta"]["empty"] == "no GPU on this node (no NVIDIA driver answers)"


def test_the_heat_map_has_a_row_for_each_core_and_gpu(path: Path, open_dashboard: Open) -> None:
    rows = chart(open_dashboard(path), "heat_map", node="n2")["data"][0]["y"]
    assert [row.partition(", mean ")[0] for row in rows] == [f"core {each}" for each in range(12)] + ["GPU 0", "GPU 1"]


def test_system_metrics_have_one_line_per_resource(path: Path, open_dashboard: Open) -> None:
    client = open_dashboard(path)
    assert len(lines(chart(client, "system_metrics", node="n2"))) == 3
    assert len(lines(chart(client, "system_metrics", node="n10"))) == 1


def test_few_steps_are_drawn_as_tracks_and_many_as_shares(tmp_path: Path, open_dashboard: Open) -> None:
    steps = training([{"data": 50.0, "backward": 50.0}] * 1000, has_captures=False)
    RunWriter(tmp_path / "first", batch_rows=100).write_all(steps).end()
    client = open_dashboard(tmp_path)
    assert chart(client, "training_phases")["layout"]["title"]["text"] == "Share of step time by phase"
    short = chart(client, "training_phases", start_ns=START_NS + SECOND_NS, end_ns=START_NS + 3 * SECOND_NS)
    assert [each["name"] for each in short["data"]] == ["train steps", "data", "backward"]
    later = chart(client, "training_phases", start_ns=START_NS + 1000 * SECOND_NS, end_ns=START_NS + 1001 * SECOND_NS)
    assert later["layout"]["meta"]["empty"] == "no step was timed in this interval"


@pytest.mark.parametrize(
    ("last", "count"),
    [("", 30), ("100", 100), ("5", 5), ("nonsense", 30), ("99999", 100), ("²", 30), ("9" * 9999, 30)],
    ids=lambda each: str(each)[:9],
)
def test_the_requested_number_of_last_steps_is_drawn(path: Path, open_dashboard: Open, last: str, count: int) -> None:
    figure = chart(open_dashboard(path), "step_timeline", steps=last)
    assert figure["layout"]["title"]["text"].startswith(f"Phases of steps {100 - count} to 99")


def test_step_times_are_drawn(path: Path, open_dashboard: Open) -> None:
    client = open_dashboard(path)
    assert "median 100" in chart(client, "step_histogram")["data"][0]["name"]
    assert lines(chart(client, "step_durations")) == ["train"]
