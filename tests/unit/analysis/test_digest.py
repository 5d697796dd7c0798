"""Chart data, compared with plain loops over the tables of the run."""

from __future__ import annotations

import math
import random
from collections import defaultdict

import numpy as np
import pytest
from timelines import MS, sampled, step_rows

from leadline.analysis.digest import Digest
from leadline.analysis.steps import read_steps
from leadline.analysis.stored_rows import bucket_width, bucket_width_ns
from leadline.analysis.usage import usage
from leadline.reader.run import Run, open_run
from leadline.records.metric import Channel
from leadline.records.names import MODES, PARTS
from leadline.testing.runs import SECOND_NS, START_NS, Capture, Part, RunWriter, SystemSample, TimelineEvent

CORES = [Channel("cpu", f"core{index}", "utilization_percent") for index in (0, 2, 10)]


def run_parts(seed: int = 0, steps: int = 300) -> list[Part]:
    """Two workers that train and evaluate, system metrics, and some non-finite values."""
    chance = random.Random(seed)
    parts: list[Part] = []
    for worker in ("rank0-11", "rank1-12"):
        at_ns = START_NS
        for step in range(steps):
            mode = "eval" if step % 7 == 6 else "train"
            phases = {name: chance.uniform(1, 90) for name in ("data", "forward", "backward")}
            rows = step_rows(step, at_ns, phases, worker=worker, mode=mode, other_ms=chance.uniform(0, 5))
            at_ns += rows[-1].event.duration_ns
            parts += rows
            loss = chance.choice([1.0, 1.0, 1.0, math.nan, math.inf]) * chance.random()
            parts.append(
                Capture(
                    step,
                    {"loss": {"value": loss}, "gradient/a.weight": {"l2": loss, "abs_mean": 1.0}},
                    worker=worker,
                    mode=mode,
                    mode_step=step // 7 if mode == "eval" else train_step(step),
                    time_ns=at_ns,
                )
            )
    readings = {each: [chance.uniform(0, 100) for _ in range(steps)] for each in CORES}
    return parts + list(sampled(readings)) + list(sampled({CORES[0]: readings[CORES[0]][::2]}, node="other"))


def train_step(step: int) -> int:
    """Return where a step of the run stands on the axis: every seventh evaluates one batch."""
    return step - step // 7 - (step % 7 == 6)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("digest") / "run"
    return open_run(RunWriter(path, batch_rows=13).write_all(run_parts()).end().path)


def digest_of(tmp_path, parts: list[Part]) -> Digest:
    return Digest(open_run(RunWriter(tmp_path / "run", batch_rows=7).write_all(parts).end().path))


@pytest.mark.parametrize("points", [2, 10, 600])
def test_samples_equal_a_plain_loop(run: Run, points: int) -> None:
    digest = Digest(run)
    start, end = digest.span_ns()
    width = bucket_width_ns(end + 1 - start, points)
    expected = defaultdict(list)
    for row in run.system_metrics().to_pylist():
        expected[row["node"], row["device"], row["time_ns"] // width * width + width // 2].append(row["value"])
    result = digest.system(points=points).to_pylist()
    assert len(result) == len(expected)
    for row in result:
        values = expected[row["node"], row["device"], row["time_ns"]]
        assert (row["min"], row["max"], row["samples"]) == (min(values), max(values), len(values))
        assert row["mean"] == pytest.approx(sum(values) / len(values), rel=1e-12)
    counts = defaultdict(int)
    for row in result:
        counts[row["node"], row["device"]] += 1
    assert max(counts.values()) <= points


def test_samples_are_selected_by_name_and_time(run: Run) -> None:
    digest = Digest(run)
    start = START_NS + 20 * SECOND_NS
    found = digest.system(device=["core2", "core10"], node="node", start_ns=start, end_ns=start + SECOND_NS)
    assert set(found["device"].to_pylist()) == {"core2", "core10"}
    assert found["time_ns"].to_numpy().min() >= start
    assert found["time_ns"].to_numpy().max() < start + SECOND_NS
    assert found["samples"].to_numpy().sum() == 4
    assert digest.system(kind="gpu").num_rows == 0
    assert digest.system(kind="gpu").schema == found.schema


def test_sensors_are_in_natural_order(run: Run) -> None:
    devices = [each.device for each in Digest(run).channels() if each.node == "node"]
    assert devices == ["core0", "core2", "core10"]


def test_usage_is_exact(run: Run) -> None:
    start, end = START_NS + 10 * SECOND_NS, START_NS + 90 * SECOND_NS
    assert Digest(run).usage(start, end) == usage(run.system_metrics(start_ns=start, end_ns=end))


@pytest.mark.parametrize("points", [2, 20, 600])
def test_steps_equal_a_plain_loop(run: Run, points: int) -> None:
    steps, width = read_steps(run.timeline()), bucket_width(300, points)
    result = {(row["worker"], row["mode"], row["step"]): row for row in Digest(run).steps(points=points).to_pylist()}
    cells = defaultdict(list)
    for place in range(len(steps)):
        worker, mode = steps.workers[steps.worker[place]], MODES[steps.mode[place]]
        cells[worker, mode, int(steps.step[place]) // width].append(place)
    assert len(result) == len(cells)
    for (worker, mode, _), places in cells.items():
        row = result[worker, mode, train_step(steps.step[places].min())]
        took = steps.duration_ns[places]
        assert row["end_step"] == train_step(steps.step[places].max()) + 1
        assert row["count"] == len(places)
        assert row["duration_ns"] == took.sum()
        assert (row["longest_ns"], row["shortest_ns"]) == (took.max(), took.min())
        assert row["longest_step"] == train_step(steps.step[places][took.argmax()])
        assert row["start_ns"] == steps.start_ns[places].min()
        assert row["end_ns"] == (steps.start_ns[places] + took).max()
        for at, name in enumerate(PARTS):
            assert row[f"{name}_ns"] == pytest.approx(steps.phases[places, at].sum(), abs=1.0)


def test_steps_are_selected_by_number_time_worker_and_mode(run: Run) -> None:
    digest = Digest(run)
    found = digest.steps(worker="rank1-12", mode="eval", start_step=5, end_step=18).to_pylist()
    assert [row["step"] for row in found] == [5, 11, 17]
    assert {(row["worker"], row["mode"]) for row in found} == {("rank1-12", "eval")}
    third = found[1]
    again = digest.steps(worker="rank1-12", start_ns=third["start_ns"], end_ns=third["end_ns"]).to_pylist()
    assert [row["step"] for row in again] == [11]
    assert digest.steps(mode="predict").num_rows == 0


def test_durations_of_steps_add_up(run: Run) -> None:
    steps = read_steps(run.timeline()).only(worker="rank0-11", mode="train")
    found = Digest(run).step_durations(bins=20)
    assert set(found) == {f"{worker}/{mode}" for worker in ("rank0-11", "rank1-12") for mode in ("train", "eval")}
    result = found["rank0-11/train"]
    assert result["count"] == len(steps) == sum(result["counts"])
    assert result["mean"] == pytest.approx(steps.duration_ns.mean() / 1e9)
    assert (result["min"], result["max"]) == (steps.duration_ns.min() / 1e9, steps.duration_ns.max() / 1e9)
    assert result["p50"] == pytest.approx(np.percentile(steps.duration_ns, 50, method="inverted_cdf") / 1e9)
    assert len(result["edges"]) == 21
    assert result["edges"] == sorted(result["edges"])


def test_phases_of_an_interval(run: Run) -> None:
    digest, steps = Digest(run), read_steps(run.timeline())
    assert digest.phases() == pytest.approx(steps.seconds_by_phase())
    mine = steps.only(worker="rank0-11")
    middle = int(mine.start_ns[5] + mine.duration_ns[5] // 2)
    found = digest.phases(start_ns=int(mine.start_ns.min()), end_ns=middle, worker="rank0-11")
    before = mine.where(mine.start_ns + mine.duration_ns <= middle)
    assert sum(found.values()) == pytest.approx((middle - int(mine.start_ns.min())) / 1e9, rel=1e-6)
    assert sum(before.seconds_by_phase().values()) < sum(found.values())


@pytest.mark.parametrize("points", [2, 15, 600])
def test_scalars_equal_a_plain_loop(run: Run, points: int) -> None:
    width = bucket_width(300, points)
    cells = defaultdict(list)
    for row in run.scalars("loss").to_pylist():
        cells[row["worker"], row["mode"], row["step"] // width].append(row)
    result = Digest(run).scalar("loss", points=points).to_pylist()
    assert len(result) == len(cells)
    for row in result:
        rows = next(
            rows
            for (worker, mode, _), rows in cells.items()
            if (worker, mode) == (row["worker"], row["mode"])
            and rows[0]["time_ns"] <= row["time_ns"] <= rows[-1]["time_ns"]
        )
        finite = [each for each in rows if math.isfinite(each["value"])]
        last = (finite or rows)[-1]
        assert (row["step"], row["mode_step"]) == (train_step(last["step"]), last["mode_step"])
        assert row["time_ns"] == last["time_ns"]
        assert (row["samples"], row["nonfinite"]) == (len(rows), len(rows) - len(finite))
        if finite:
            values = [each["value"] for each in finite]
            assert (row["value"], row["min"], row["max"]) == (values[-1], min(values), max(values))
        else:
            assert not math.isfinite(row["value"])
            assert math.isnan(row["min"])


def test_the_batches_of_an_evaluation_are_one_bucket_at_the_train_step_before_it(tmp_path) -> None:
    losses, parts = [4.0, 8.0, math.nan, 0.0, 3.0], []
    for step in range(20):
        evaluated = step % 10 >= 5
        mode_step = step // 10 * 5 + step % 5
        values = {"loss": {"value": losses[step % 5]}, "weight": {"l2": float(step)}}
        rows = step_rows(step, START_NS + step * SECOND_NS, {"data": 5.0}, mode="eval" if evaluated else "train")
        parts += [*rows, Capture(step, values, mode="eval" if evaluated else "train", mode_step=mode_step)]
    digest = digest_of(tmp_path, parts)
    found = digest.scalar("loss", "eval").to_pylist()
    assert [(row["step"], row["mode_step"], row["samples"], row["nonfinite"]) for row in found] == [
        (4, 4, 5, 1),
        (9, 9, 5, 1),
    ]
    assert {(row["value"], row["min"], row["max"]) for row in found} == {(15 / 4, 0.0, 8.0)}
    timed = digest.steps(mode="eval").to_pylist()
    assert [(row["step"], row["end_step"], row["count"]) for row in timed] == [(4, 5, 5), (9, 10, 5)]
    assert digest.layers("weights", "l2", "eval")["steps"] == [4, 9]
    assert digest.layers("weights", "l2", "eval")["values"].tolist() == [[9.0, 19.0]]
    assert digest.steps(start_step=5)["step"].to_pylist() == [5, 6, 7, 8, 9, 9]


def test_scalar_names_are_in_order(tmp_path) -> None:
    parts: list[Part] = [
        Capture(0, {"learning_rate": {"value": 1.0}, "loss": {"value": 2.0}, "fc.weight": {"l2": 1.0}}),
        Capture(1, {"loss": {"value": 2.0}}, mode="eval"),
    ]
    assert digest_of(tmp_path, parts).scalar_names() == [
        ("loss", "train"),
        ("loss", "eval"),
        ("learning_rate", "train"),
    ]


def test_layers_are_a_matrix(run: Run) -> None:
    found = Digest(run).layers("gradients", "abs_mean", points=1000)
    assert found["tensors"] == ["gradient/a.weight"]
    assert found["steps"] == [train_step(step) for step in range(300) if step % 7 != 6]
    assert found["values"].shape == (1, len(found["steps"]))
    assert (found["values"] == 1.0).all()
    nothing = Digest(run).layers("weights", "l2")
    assert (nothing["tensors"], nothing["steps"], nothing["values"].size) == ([], [], 0)


def test_an_empty_run_has_empty_results(tmp_path) -> None:
    digest = digest_of(tmp_path, [])
    assert digest.channels() == []
    assert digest.system().num_rows == digest.steps().num_rows == digest.scalar("loss").num_rows == 0
    assert digest.step_durations() == digest.phases() == {}
    assert digest.usage() == digest.scalar_names() == []
    start, end = digest.span_ns()
    assert start == START_NS <= end
    assert digest.job().started_ns == START_NS


def test_a_digest_follows_its_run(tmp_path) -> None:
    writer = RunWriter(tmp_path / "run")
    writer.write_all([SystemSample(START_NS + SECOND_NS), *step_rows(0, START_NS, {"data": 5.0})])
    run = open_run(writer.path)
    digest = Digest(run)
    assert digest.system()["samples"].to_pylist() == [1]
    assert digest.steps()["step"].to_pylist() == [0]
    writer.write_all([SystemSample(START_NS + 2 * SECOND_NS), *step_rows(1, START_NS + 5 * MS, {"data": 5.0})])
    run.refresh()
    digest.refresh()
    assert digest.system()["samples"].to_pylist() == [1, 1]
    assert digest.steps()["step"].to_pylist() == [0, 1]
    assert digest.span_ns()[1] >= START_NS + 2 * SECOND_NS


def test_rows_outside_steps_are_events(tmp_path) -> None:
    rows = step_rows(0, START_NS, {"data": 5.0})
    start = step_rows(0, START_NS - SECOND_NS, {"imports": 700.0}, mode="initialization")[0]
    digest = digest_of(tmp_path, [start, *rows])
    assert isinstance(start, TimelineEvent)
    assert digest.events()["name"].to_pylist() == ["imports"]
    assert digest.job().split == {"imports": 0.7}


def test_the_usage_of_more_sensors_than_are_read_at_once_is_that_of_all_samples(tmp_path) -> None:
    samples = [
        SystemSample(
            START_NS + second * SECOND_NS, float((7 * gpu + second) % 100), Channel("gpu", f"gpu{gpu}", metric)
        )
        for second in range(5)
        for gpu in range(11)
        for metric in ("utilization_percent", "memory_used_percent")
    ]
    run = open_run(RunWriter(tmp_path / "run").write_all(samples).path)
    found = Digest(run).usage()
    assert len(found) == 22
    assert sorted(found, key=str) == sorted(usage(run.system_metrics()), key=str)
