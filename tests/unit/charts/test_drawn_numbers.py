"""Numbers drawn by figures: points, units, gaps, shares, markers."""

from __future__ import annotations

import math
from pathlib import Path

import every_figure
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from every_figure import Made

from leadline.analysis import histograms, operators, ranks
from leadline.analysis.digest import Digest
from leadline.analysis.job import JobPhases
from leadline.analysis.usage import distributions
from leadline.charts import marks, phases, profiles, scalars, system_charts, theme, usage, values
from leadline.charts import steps as step_figures
from leadline.charts.value_axis import with_gaps
from leadline.config.presets import FIRST_STEPS
from leadline.reader.run import Run
from leadline.records.formatting import phase_label
from leadline.testing.runs import START_NS, Capture, RunWriter


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Made:
    return every_figure.write_run(str(tmp_path_factory.mktemp("numbers") / "run"))


def lines(fig) -> dict[str, object]:
    return {each.name: each for each in fig.data if each.showlegend is not False and each.mode != "markers"}


def system(rows: list[tuple[str, str, str, str, int, float]]) -> pa.Table:
    """Rows of node, kind, device, metric, seconds, value."""
    names = ("node", "kind", "device", "metric", "time_ns", "mean")
    columns = {name: [each[at] for each in rows] for at, name in enumerate(names)}
    columns["time_ns"] = [START_NS + 10**9 * each for each in columns["time_ns"]]
    return pa.table({**columns, "min": columns["mean"], "max": columns["mean"], "samples": [1] * len(rows)})


def test_usage_draws_each_device_in_its_unit_and_natural_order(made: Made) -> None:
    fig = usage.usage(made.digest.system("gpu", "memory_used_bytes", node="algo-1"))
    drawn = lines(fig)
    assert list(drawn) == ["GPU 0", "GPU 1"]
    assert (fig.layout.title.text, fig.layout.yaxis.ticksuffix) == ("GPU memory", " GB")
    table = made.digest.system("gpu", "memory_used_bytes", "gpu0", "algo-1")
    assert drawn["GPU 0"].y == pytest.approx(table["mean"].to_numpy() / 1e9, rel=1e-6)
    assert drawn["GPU 0"].x.tolist() == [each // 1_000_000 for each in table["time_ns"].to_pylist()]


def test_core_2_comes_before_core_10(made: Made) -> None:
    drawn = lines(usage.usage(made.digest.system("cpu", "utilization_percent", node="algo-1")))
    assert list(drawn) == ["all cores", "core 0", "core 1", "core 2", "core 10"]


def test_no_line_is_drawn_where_nothing_was_measured() -> None:
    rows = [("n", "cpu", "total", "utilization_percent", at, 50.0) for at in (0, 1, 2, 3, 60, 61, 62)]
    (line,) = usage.usage(system(rows)).data
    assert np.isnan(line.y).tolist() == [False] * 4 + [True] + [False] * 3
    assert len(line.x) == 8


def test_the_mean_of_devices_leaves_the_total_out() -> None:
    rows = [
        ("n", "cpu", device, "utilization_percent", 0, value)
        for device, value in (("total", 99.0), ("core0", 10.0), ("core1", 30.0))
    ]
    fig = usage.usage(system(rows), is_mean=True)
    line = next(each for each in fig.data if each.showlegend is not False)
    assert line.y.tolist() == [20.0]
    assert "mean of all devices" in fig.layout.title.text


def test_twenty_series_are_drawn_and_the_others_counted() -> None:
    rows = [("n", "gpu", f"gpu{at}", "utilization_percent", t, 1.0) for at in range(64) for t in range(3)]
    fig = usage.usage(system(rows))
    assert len(fig.data) == 20
    assert "and 44 more series" in [each.text for each in fig.layout.annotations]


def test_a_histogram_counts_samples_and_sums_to_all_of_them() -> None:
    rows = [("n", "cpu", "core0", "utilization_percent", at, value) for at, value in enumerate([0.0, 0.0, 100.0, 50.0])]
    table = system(rows).set_column(8, "samples", pa.array([3, 1, 4, 2]))
    (curve,) = usage.histogram(table, bins=4).data
    assert curve.y.tolist()[1:-1:2] == pytest.approx([40.0, 0.0, 20.0, 40.0])


def test_the_heat_map_has_a_row_for_every_core_and_gpu_of_every_node(made: Made) -> None:
    fig = usage.heat_map(made.digest.system())
    names = [name.partition(", mean ")[0] for name in fig.data[0].y]
    assert names == [
        f"{node} {device}"
        for node in every_figure.NODES
        for device in ("core 0", "core 1", "core 2", "core 10", "GPU 0", "GPU 1")
    ]
    table = made.digest.system("gpu", "utilization_percent", "gpu1", "algo-2")
    assert fig.data[0].z[11] == pytest.approx(table["mean"].to_numpy(), abs=0.51)
    gpu1 = made.run.system_metrics("gpu", "gpu1", "utilization_percent", node="algo-2")["value"].to_numpy()
    assert fig.data[0].y[11] == f"algo-2 GPU 1, mean {gpu1.mean():.0f} %"
    assert (fig.data[0].zmin, fig.data[0].zmax) == (0, 100)
    assert "%" in fig.data[0].colorbar.title.text


def test_long_steps_are_marked_at_their_step(made: Made) -> None:
    fig = step_figures.durations(made.digest.steps("rank0-7"))
    (long,) = [each for each in fig.data if each.name == "over 3 × median"]
    assert long.x.tolist() == [50]
    assert long.y[0] == pytest.approx(1.1, rel=0.05)


def test_the_timeline_stacks_what_a_step_lasts(made: Made) -> None:
    table = made.digest.steps("rank1-8", points=1000)
    fig = step_figures.timeline(table, last=30)
    whole = np.sum([each.y for each in fig.data], axis=0)
    assert len(whole) == 30
    expected = table.sort_by("step")["duration_ns"].to_numpy()[-30:] / 1e9
    assert whole == pytest.approx(expected, rel=1e-5)
    assert "170 to 199" in fig.layout.title.text


def test_shares_over_time_make_a_hundred_per_cent(made: Made) -> None:
    fig = phases.over_time(made.digest.steps())
    whole = np.nansum([each.y for each in fig.data], axis=0)
    assert whole == pytest.approx(np.full(len(whole), 100.0), abs=0.01)
    told = made.digest.phases()
    widths = [np.nansum(each.y) for each in fig.data]
    assert {each.name for each in fig.data} == set(map(phase_label, told))
    assert dict(zip([each.name for each in fig.data], widths, strict=True))["backward"] == max(widths)


def test_tracks_merge_only_invisible_intervals(made: Made) -> None:
    near = phases.tracks(made.run.timeline(worker="rank0-7", end_step=10))
    lanes = {each.name: each for each in near.data}
    assert list(lanes) == ["train steps", "data", "forward", "backward", "optimizer", "collective"]
    assert {name: len(each.x) for name, each in lanes.items()} == dict.fromkeys(lanes, 10)
    table = made.run.timeline("forward", worker="rank0-7", end_step=10)
    assert sum(lanes["forward"].x) == pytest.approx(sum(table["duration_ns"].to_pylist()) / 1e6, rel=1e-5)
    many = made.run.timeline(worker="rank0-7")
    rows = many.slice(0, 1).to_pylist() * 5000
    crowd = [
        {**each, "name": "mark", "start_ns": START_NS + at * 1000, "duration_ns": 10} for at, each in enumerate(rows)
    ]
    wide = {**rows[0], "name": "wide", "start_ns": START_NS, "duration_ns": 3600 * 10**9}
    fig = phases.tracks(pa.Table.from_pylist([*crowd, wide], schema=many.schema))
    assert {each.name: len(each.x) for each in fig.data} == {"mark": 1, "wide": 1}
    assert "5,000 in" in next(each for each in fig.data if each.name == "mark").text[0]


def test_progress_ends_at_the_steps_that_were_done(made: Made) -> None:
    fig = phases.progress(made.digest.steps("rank0-7"), job=made.digest.job(), interruptions=[(1, 2)])
    assert fig.data[0].y[0] == 0
    assert fig.data[0].y[-1] == 200
    assert {each.name for each in fig.layout.shapes} >= {"interrupted", "finalization"}


def test_the_label_of_an_interval_never_begins_before_the_chart(made: Made) -> None:
    """It may be wider than its interval, left of which stand the numbers of the axis."""
    table = made.digest.steps("rank0-7")
    start, end = pc.min(table["start_ns"]).as_py(), pc.max(table["end_ns"]).as_py()
    job = JobPhases(2 * start - end, 2 * end - start, start, end, {})
    fig = phases.progress(table, job=job)
    shades = {shape.name: shape for shape in fig.layout.shapes}
    labels = {note.text: note for note in fig.layout.annotations}
    assert (labels["initialization"].x, labels["initialization"].xanchor) == (shades["initialization"].x0, "left")
    assert (labels["finalization"].x, labels["finalization"].xanchor) == (shades["finalization"].x1, "right")


@pytest.mark.parametrize("is_log", [None, True])
def test_the_axis_of_values_that_are_never_finite_has_no_numbers(tmp_path: Path, is_log: bool | None) -> None:
    values = {"never": [math.nan] * 5, "once": [math.nan] * 4 + [1.0]}
    parts = [Capture(step, {name: {"value": row[step]} for name, row in values.items()}) for step in range(5)]
    RunWriter(tmp_path / "run").write_all(parts).end()
    digest = Digest(Run(str(tmp_path / "run")))
    shown = {name: scalars.scalars(digest.scalar(name), is_log=is_log).layout.yaxis.showticklabels for name in values}
    assert shown == {"never": False, "once": None}


def test_nonfinite_values_are_marked_and_counted(made: Made) -> None:
    fig = scalars.scalars(made.digest.scalar("loss"), y="loss")
    (marked,) = [each for each in fig.data if each.mode == "markers"]
    assert set(marked.x) == {150}
    assert marked.name == "not finite (NaN or infinite): 3"
    loss = next(each for each in fig.data if "rank 0" in each.name and each.mode == "lines")
    assert np.isnan(loss.y[150])
    assert loss.y[10] == pytest.approx(3 / 11)


def test_on_a_log_axis_magnitudes_are_drawn(made: Made) -> None:
    table = made.digest.scalar("loss", worker="rank0-7")
    negative = table.set_column(6, "value", pa.array([-1.0] * table.num_rows))
    fig = scalars.scalars(negative, y="loss", is_log=True)
    assert fig.layout.yaxis.type == "log"
    assert fig.layout.yaxis.title.text == "magnitude"
    assert set(fig.data[0].y) == {1.0}


def test_the_axis_is_logarithmic_where_values_differ_widely(made: Made) -> None:
    table = made.digest.scalar("loss", worker="rank0-7")
    for largest, scale in ((99.0, "linear"), (101.0, "log")):
        rows = [1.0] * (table.num_rows - 1) + [largest]
        fig = scalars.scalars(table.set_column(6, "value", pa.array(rows)))
        assert (fig.layout.meta["scale"], fig.layout.yaxis.type) == (scale, "log" if scale == "log" else None)
    assert fig.layout.yaxis.dtick == 1  # 1, 10, 100
    assert scalars.scalars(table.set_column(6, "value", pa.array(rows)), is_log=False).layout.yaxis.type is None


def test_the_axis_is_logarithmic_where_many_values_are_far_below_the_median(made: Made) -> None:
    table = made.digest.scalar("loss", worker="rank0-7")
    count = table.num_rows // 10
    for low, scale in ((0.99e-3, "log"), (1.01e-3, "linear")):
        rows = [low] * count + [1.0] * (table.num_rows - count)
        fig = scalars.scalars(table.set_column(6, "value", pa.array(rows)))
        assert fig.layout.meta["scale"] == scale


def test_compared_runs_keep_their_colour_where_another_one_has_no_values(made: Made) -> None:
    table = made.digest.scalar("loss", worker="rank0-7")
    both = scalars.compare({"one": table, "two": table})
    alone = scalars.compare({"one": table.slice(0, 0), "two": table})
    (line,) = [trace.line.color for trace in both.data if trace.mode != "markers" and trace.name.endswith("two")]
    assert line in {trace.line.color for trace in alone.data}
    assert line != theme.series_colour(0)


def test_few_points_are_marked_and_evaluations_are_points(made: Made) -> None:
    table = made.digest.scalar("loss", worker="rank0-7")
    few = table.filter(pa.compute.is_in(table["step"], pa.array([0, 1, 2, 3, 60, 61, 62])))
    (line,) = scalars.scalars(few).data
    assert line.mode == "lines+markers"
    assert np.isnan(line.y).tolist() == [False] * 4 + [True] + [False] * 3
    column = few.column_names.index("mode")
    points = scalars.scalars(few.set_column(column, "mode", pa.array(["eval"] * few.num_rows)))
    assert [each.mode for each in points.data] == ["markers"]
    assert points.layout.title.text == "loss, eval steps"


@pytest.mark.parametrize(
    ("count", "labels"), [(3, ["training 2", "3"]), (9, ["training 2", *"3456789"]), (10, ["training 2"])]
)
def test_trainings_that_follow_are_numbered_if_they_are_few(made: Made, count: int, labels: list[str]) -> None:
    fig = marks.mark_trainings(scalars.scalars(made.digest.scalar("loss", worker="rank0-7")), range(0, 20 * count, 20))
    assert [each.text for each in fig.layout.annotations if each.name == "training"] == labels


def test_a_vanishing_gradient_is_darker_row_by_row(made: Made) -> None:
    found = made.digest.layers("gradients", "abs_mean")
    fig = values.layers(found, statistic="abs_mean")
    heat = fig.data[0]
    assert list(heat.y) == [f"gradient/block.{at}.weight" for at in range(4)]
    assert heat.z[:, 0] == pytest.approx([-6, -5, -4, -3], abs=0.01)
    assert heat.customdata[:, 0] == pytest.approx([1e-6, 1e-5, 1e-4, 1e-3], rel=0.01)
    assert heat.hovertemplate == "%{y}<br>step %{x:,}: %{customdata:.3~g}<extra></extra>"
    assert fig.layout.meta["rows"] == found["tensors"]


def test_zero_is_darkest_and_what_is_not_finite_differs_from_what_is_absent() -> None:
    found = {"tensors": ["a", "b"], "steps": [0, 1], "values": np.array([[0.0, 1e-3], [np.nan, np.inf]])}
    fig = values.layers(found, statistic="abs_mean")
    heat, hatching, nonfinite = fig.data
    assert list(zip(hatching.y, hatching.base, hatching.x, strict=True)) == [("b", 0.5, 1.0)]
    assert hatching.marker.pattern.shape == "/"
    assert np.isnan(nonfinite.z).tolist() == [[True, True], [True, False]]
    assert [each.text for each in fig.layout.annotations] == ["red, hatched: not finite · grey: not captured"]
    assert heat.z[0].tolist() == pytest.approx([-4.0, -3.0])
    assert np.isnan(heat.z[1]).all()
    assert heat.colorbar.ticktext[0] == "0"


def test_neighbouring_tensors_are_merged_if_there_are_too_many() -> None:
    found = {"tensors": [f"t{at}" for at in range(500)], "steps": [0], "values": np.full((500, 1), 10.0)}
    fig = values.layers(found, statistic="abs_mean")
    assert len(fig.data[0].y) == 125
    assert fig.data[0].y[0] == "t0 … t3"
    assert "4 tensors per row (median) · grey: not captured" in [each.text for each in fig.layout.annotations]
    assert fig.layout.meta["rows"][1] == "t4"


def test_rows_of_a_deep_model_are_labelled_by_block() -> None:
    names = [f"gradient/blocks.{block}.{part}" for block in range(100) for part in ("norm", "conv", "fc")]
    found = {"tensors": [*names, "gradient/head"], "steps": [0], "values": np.full((301, 1), 10.0)}
    labels = list(values.layers(found, statistic="abs_mean").data[0].y)
    assert labels[:3] == ["gradient/blocks.0", "gradient/blocks.0 … blocks.1", "gradient/blocks.1"]
    assert labels[-1] == "gradient/head"


def test_cells_stay_red_after_the_last_capture() -> None:
    found = {"tensors": ["a"], "steps": [0, 20, 40], "values": np.full((1, 3), 10.0)}
    found["nonfinite"] = {"steps": np.array([44, 45]), "values": np.full((1, 2), np.inf)}
    fig = values.layers(found, statistic="abs_mean")
    assert fig.data[-1].x[-1] >= 50.0, "where the cell of step 40 would end"


def test_the_slowest_rank_is_named(made: Made) -> None:
    found = ranks.compare_ranks(made.steps)
    fig = step_figures.rank_times(found)
    assert "rank 2 is slowest" in fig.layout.annotations[0].text
    assert "backward" in fig.layout.annotations[0].text
    assert len(set(fig.data[0].marker.color[:2])) == 1
    assert fig.data[0].marker.color[2] not in fig.data[0].marker.color[:2]
    stacked = step_figures.rank_phases(found)
    assert {each.name for each in stacked.data} >= {"data loading", "forward", "backward", "optimizer", "collective"}


def test_simultaneous_findings_share_a_flag(made: Made) -> None:
    chart = scalars.scalars(made.digest.scalar("loss"), y="loss")
    before = len(chart.data)
    findings = [every_figure._finding(rule, step) for rule, step in (("a", 40), ("b", 41), ("a", 90), ("c", 150))]
    fig = marks.mark(chart, findings)
    assert [each.x0 for each in fig.layout.shapes] == [40, 41, 90, 150]
    flags = [(each.x, each.text) for each in fig.layout.annotations if each.name == "flag"]
    assert flags == [(40, "1–2"), (90, "3"), (150, "4")]
    assert [each["rule"] for each in fig.layout.meta["flags"]] == ["a", "b", "a", "c"]
    assert [list(each) for each in fig.data[before].customdata] == [
        ["a", 1, 40],
        ["b", 1, 41],
        ["a", 1, 90],
        ["c", 1, 150],
    ]


def test_of_a_rule_that_is_listed_already_the_first_part_of_the_message_is_listed(made: Made) -> None:
    findings = [
        {**every_figure._finding("fall", step), "message": f"it fell to {step}; what moved: the rate"}
        for step in (40, 90)
    ]
    fig = marks.mark(scalars.scalars(made.digest.scalar("loss")), findings)
    assert [flag["text"] for flag in fig.layout.meta["flags"]] == [
        "fall, step 40: it fell to 40; what moved: the rate",
        "fall, step 90: it fell to 90",
    ]


def test_a_chart_without_steps_or_times_has_no_markers(made: Made) -> None:
    chart = phases.pie({"data": 1.0}, title="x")
    assert marks.mark(chart, [every_figure._finding("a", 1)]).layout.shapes == ()


def test_a_pie_merges_small_slices() -> None:
    fig = phases.pie({f"part {at}": float(at) for at in range(1, 21)}, title="x")
    assert len(fig.data[0].values) == 8
    assert fig.data[0].labels[-1].startswith("13 others")
    assert sum(fig.data[0].values) == 210


def test_a_box_shows_percentiles_in_its_unit(made: Made) -> None:
    found = distributions(made.digest.system("gpu", "memory_used_bytes", node="algo-1"))
    (box,) = usage.boxes(found).data
    assert list(box.x) == ["GPU 0", "GPU 1"]
    assert box.median == pytest.approx([each.p50 / 1e9 for each in found], rel=1e-6)
    assert box.lowerfence == pytest.approx([each.p5 / 1e9 for each in found], rel=1e-6)


def test_operators_are_drawn_by_device_longest_first() -> None:
    rows = operators.top_operators(every_figure.operator_table("aten::conv2d", "layer1.0"))
    fig = profiles.bars(rows)
    assert [each.name for each in fig.data] == ["gpu0", "cpu"]
    assert list(fig.layout.yaxis.categoryarray)[-1] == "conv2d, forward of layer1.0 on gpu0"
    assert profiles.bars(rows, limit=1).data[0].x == pytest.approx([1.000002])


def test_values_at_a_step_are_all_counted() -> None:
    fig = values.at_step(np.array([[0.0, 1.0], [np.nan, 1.0]]), tensor="w", step=7, bins=2)
    assert fig.data[0].y.tolist() == [1, 2]
    assert fig.layout.annotations[0].text == "1 of 4 values are not finite or too large"


def test_a_heat_map_of_histograms_has_all_elements_in_each_step(made: Made) -> None:
    found = histograms.read_histograms(made.run.tensor("fc.weight"))
    heat = values.over_steps(found).data[0]
    assert heat.x.tolist() == list(range(0, 200, 20))
    assert heat.z.sum(axis=0) == pytest.approx(np.full(10, 100.0), abs=0.5)


def test_linked_charts_show_messages_of_empty_parts() -> None:
    rows = [("n", "gpu", f"gpu{at}", "utilization_percent", t, 1.0) for at in range(30) for t in range(3)]
    many = usage.usage(system(rows))
    none = usage.usage(system(rows).slice(0, 0), missing="no disk was read")
    fig = system_charts.linked([many, none])
    assert [each.text for each in fig.layout.annotations] == ["no disk was read; and 10 more series"]
    assert len(fig.data) == 20
    assert system_charts.linked([none], missing="nothing at all").layout.meta["empty"] == "nothing at all"


def test_series_are_called_by_what_distinguishes_them(made: Made) -> None:
    drawn = step_figures.durations(made.digest.steps()).data
    assert {trace.name for trace in drawn if trace.mode == "lines"} >= {"rank 0", "rank 1"}
    alone = step_figures.histogram(made.digest.step_durations("rank0-7", "train"))
    assert alone.data[0].name.startswith("train: median ")
    progress = phases.progress(made.digest.steps(mode="train"))
    assert [trace.name for trace in progress.data] == [f"train, rank {rank}" for rank in range(3)]


def test_a_line_is_not_interrupted_where_captures_become_less_frequent() -> None:
    regular = sorted({*FIRST_STEPS, *range(0, 400, 50)})
    for shown, missing in (((0, 51), set()), ((0, 400), set()), ((0, 400), {200, 250, 300, 350}), ((40, 400), {150})):
        steps = [step for step in regular if shown[0] <= step < shown[1] and step not in missing]
        rows = {"step": np.array(steps), "value": np.ones(len(steps))}
        assert not np.isnan(with_gaps(rows, "step")["value"]).any(), (shown, missing)
    pause = {"step": np.array([*range(20), *range(500, 520)]), "value": np.ones(40)}
    drawn = with_gaps(pause, "step")
    (gap,) = np.flatnonzero(np.isnan(drawn["value"]))
    assert drawn["step"][gap - 1 : gap + 2].tolist() == [19, 20, 500]


def test_the_axis_of_step_times_has_few_round_times() -> None:
    edges = np.geomspace(0.0007, 0.025, 20)
    counts = np.ones(19)
    fig = step_figures.histogram({"rank0-1/train": {"edges": edges, "counts": counts, "p50": 0.001, "p99": 0.02}})
    assert fig.layout.xaxis.ticktext == ("1 ms", "2 ms", "5 ms", "10 ms", "20 ms")
    assert fig.layout.xaxis.tickvals == pytest.approx((0.001, 0.002, 0.005, 0.01, 0.02))


def test_steps_of_values_that_are_not_finite_are_red_though_only_their_count_was_captured() -> None:
    data = {"tensors": ["a", "b"], "steps": [0, 20], "values": [[1.0, 2.0], [3.0, 4.0]]}
    counts = {"tensors": ["b", "c"], "steps": [0, 10, 29, 32], "values": [[0.0, 0.0, 7.0, 8.0], [0.0, 0.0, 1.0, 0.0]]}
    fig = values.layers(values.with_nonfinite(data, counts), statistic="abs_mean")
    heat, hatching, red = fig.data
    assert heat.x.tolist() == [0, 20]
    assert list(zip(hatching.y, hatching.base, hatching.x, strict=True)) == [("b", 28.5, 1.0), ("b", 31.5, 1.0)]
    assert red.x.tolist() == [28.5, 29.5, 31.5, 32.5]
    np.testing.assert_array_equal(np.asarray(red.z), [[np.nan] * 3, [1, np.nan, 1]])
    assert [each.text for each in fig.layout.annotations] == ["red, hatched: not finite · grey: not captured"]
    assert values.with_nonfinite(data, {**counts, "values": np.zeros((2, 4))}) is data
