"""Compacted runs answer as the same runs do from their segments, whatever happened to them meanwhile."""

from __future__ import annotations

import math
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from long_runs import Day, write_day

from leadline.analysis.digest import Digest
from leadline.compaction import compactor
from leadline.compaction.compactor import Compactor
from leadline.reader.compact import ParquetPart
from leadline.reader.run import open_run
from leadline.store import layout
from leadline.testing.runs import SECOND_NS, START_NS, Capture, Heartbeat, Part, RunWriter
from leadline.testing.timelines import gpu, step_rows

Answers = dict[str, Any]
QUARTER = Day(hours=0.25, cores=4, gpus=1, steps=3000, tensors=6, every=10)


def story(seed: int, steps: int = 250) -> list[Part]:
    """Two workers, each in its own time; values that are not finite; collectives that come after their step."""
    chance = random.Random(seed)
    parts: list[tuple[int, Part]] = []
    for worker in ("rank0-11", "rank10-12"):
        at_ns = START_NS
        for step in range(steps):
            mode = "eval" if step % 9 == 8 else "train"
            phases = {name: chance.uniform(100, 900) for name in ("data", "forward", "backward")}
            phases["collective"] = chance.uniform(0, phases["backward"])
            rows = step_rows(step, at_ns, phases, worker=worker, mode=mode, within={"collective": "backward"})
            at_ns = max(each.event.start_ns + each.event.duration_ns for each in rows)
            parts += [(at_ns + chance.choice([0, 0, SECOND_NS]), each) for each in rows]
            loss = chance.choice([1.0, 1.0, math.nan, -math.inf]) * chance.random()
            values = {"loss": {"value": loss}}
            if step % 3 == 0:
                values |= {"gradient/a.weight": {"l2": loss}, "gradient/b.weight": {"l2": 1.0}}
            parts.append((at_ns, Capture(step, values, worker=worker, mode=mode, mode_step=step // 2, time_ns=at_ns)))
    for index in range(600):
        at_ns = START_NS + index * SECOND_NS
        parts += [(at_ns, Heartbeat(at_ns, chance.uniform(0, 100), gpu(number))) for number in (0, 1, 10)]
    return [part for _, part in sorted(parts, key=lambda each: each[0])]


def answers(run: str) -> Answers:
    """What charts would ask, near and far."""
    digest = Digest(open_run(run))
    start, end = digest.span_ns()
    middle, near = (start + end) // 2 + 12_345, start + (end - start) // 5
    return {
        "channels": digest.channels(),
        "span": (start, end),
        "job": digest.job().spoken(),
        "usage": digest.usage(),
        "usage of an interval": digest.usage(near, middle),
        "machine": digest.system(),
        "machine, few points": digest.system(points=5),
        "machine, near": digest.system("gpu", device="gpu10", start_ns=near, end_ns=near + 40 * SECOND_NS, points=9),
        "steps": digest.steps(),
        "steps, few points": digest.steps(points=4),
        "steps of a time": digest.steps(start_ns=near, end_ns=middle, points=20),
        "steps by number": digest.steps(start_step=37, end_step=301, points=7),
        "durations": digest.step_durations(),
        "phases": digest.phases(),
        "phases of an interval": digest.phases(near, middle),
        "names": digest.scalar_names(),
        "loss": digest.scalar("loss"),
        "loss, few points": digest.scalar("loss", points=6),
        "loss, near": digest.scalar("loss", start_step=100, end_step=150),
        "gradient": digest.statistic("gradient/a.weight", "l2", mode="train", points=11),
        "layers": digest.layers("gradients", "l2", points=12),
        "events": digest.events(),
    }


def assert_same(found: Answers, expected: Answers) -> None:
    for name, told in expected.items():
        if isinstance(told, pa.Table):
            assert_same_table(name, found[name], told)
        elif name == "layers":
            assert found[name]["tensors"] == told["tensors"]
            assert found[name]["steps"] == told["steps"]
            np.testing.assert_array_equal(found[name]["values"], told["values"])
        elif name.startswith("phases"):
            assert found[name] == pytest.approx(told, rel=1e-12), name
        else:
            assert found[name] == told, name


def assert_same_table(name: str, found: pa.Table, expected: pa.Table) -> None:
    assert found.schema == expected.schema, name
    assert found.num_rows == expected.num_rows, name
    for column in expected.column_names:
        left, right = found[column], expected[column]
        if pa.types.is_floating(left.type):
            np.testing.assert_allclose(left.to_numpy(), right.to_numpy(), rtol=1e-12, err_msg=f"{name}: {column}")
        else:
            assert left.to_pylist() == right.to_pylist(), f"{name}: {column}"


@pytest.fixture(autouse=True)
def _small_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many little files, some of which are put together."""
    monkeypatch.setattr(compactor, "_GO_BYTES", 20_000)
    monkeypatch.setattr(compactor, "_WORTH_BYTES", 20_000)
    monkeypatch.setattr(compactor, "_FEW_BYTES", 1)
    monkeypatch.setattr(compactor, "LARGE_BYTES", 100_000)


def write(tmp_path, parts: list[Part]) -> str:
    return RunWriter(tmp_path / "run", batch_rows=5, segment_batches=60).write_all(parts).end().path


def files_of(run: str) -> list[str]:
    folder = os.path.join(run, layout.COMPACT)
    return sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if name != "lock")


@pytest.mark.parametrize("seed", range(3))
def test_a_compacted_run_gives_the_same_answers(tmp_path, seed: int) -> None:
    run = write(tmp_path, story(seed))
    expected = answers(run)
    assert Compactor(run).compact() > 10
    assert_same(answers(run), expected)
    assert any("000001-000008" in each for each in files_of(run))
    digest = Digest(open_run(run))
    assert all(not each.tail for streams in digest._streams() for each in streams.all.values())


def test_a_long_run_is_told_at_every_level(tmp_path) -> None:
    run = write_day(tmp_path / "run", QUARTER)
    expected = answers(run)
    Compactor(run).compact()
    assert_same(answers(run), expected)


def test_nothing_else_of_a_run_changes(tmp_path) -> None:
    run = write(tmp_path, story(0))
    before = {path: (os.stat(path).st_mtime_ns, os.stat(path).st_size) for path in walk(run)}
    Compactor(run).compact()
    after = {path: (os.stat(path).st_mtime_ns, os.stat(path).st_size) for path in walk(run)}
    assert {path: each for path, each in after.items() if f"/{layout.COMPACT}/" not in path} == before
    assert {os.stat(path).st_mode & 0o777 for path in files_of(run)} == {0o600}


def walk(folder: str) -> list[str]:
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]


def test_a_run_that_grows_is_compacted_as_it_does(tmp_path) -> None:
    parts = story(5)
    writer = RunWriter(tmp_path / "run", batch_rows=5, segment_batches=60)
    digest: Digest | None = None
    for at in range(0, len(parts), len(parts) // 4):
        for part in parts[at : at + len(parts) // 4]:
            writer.write(part)
        Compactor(writer.path).compact()
        digest = digest or Digest(open_run(writer.path))
        digest.run.refresh()
        assert (
            digest.refresh().system().equals(without_compact(writer.path, lambda run: Digest(open_run(run)).system()))
        )
    writer.end()
    Compactor(writer.path).compact()
    assert_same(answers(writer.path), without_compact(writer.path, answers))


def without_compact(run: str, ask: Callable[[str], Any]) -> Any:
    """The answer of a copy of a run from which nothing was derived."""
    copy = f"{run}-bare"
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns(layout.COMPACT))
    try:
        return ask(copy)
    finally:
        shutil.rmtree(copy)


@pytest.mark.parametrize("harm", ["torn", "empty", "other bytes", "removed", "another version"])
def test_a_damaged_file_is_done_without_and_made_anew(tmp_path, harm: str) -> None:
    run = write(tmp_path, story(1))
    expected = answers(run)
    Compactor(run).compact()
    for path in files_of(run)[::2]:
        damage(path, harm)
    assert_same(answers(run), expected)
    Compactor(run).compact()
    assert_same(answers(run), expected)


def damage(path: str, harm: str) -> None:
    data = bytearray(Path(path).read_bytes())
    if harm == "removed":
        os.unlink(path)
        return
    if harm == "torn":
        data = data[: len(data) // 2]
    elif harm == "empty":
        data = bytearray()
    elif harm == "another version":
        data = data.replace(b'"format": 1', b'"format": 7')
    else:
        for place in range(40, len(data) // 2, 97):
            data[place] ^= 0x55
    Path(path).write_bytes(data)


def test_a_removed_folder_takes_nothing_away(tmp_path) -> None:
    run = write(tmp_path, story(2))
    expected = answers(run)
    Compactor(run).compact()
    digest = Digest(open_run(run))
    shutil.rmtree(os.path.join(run, layout.COMPACT))
    assert_same_table("loss", digest.refresh().scalar("loss"), expected["loss"])
    assert_same(answers(run), expected)


def test_small_runs_are_left_alone(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compactor, "LARGE_BYTES", 1 << 30)
    assert not Compactor(write(tmp_path, story(0, steps=20))).is_large()


def test_only_one_compacts(tmp_path) -> None:
    run = write(tmp_path, story(0, steps=20))
    with Compactor(run).alone() as first, Compactor(run).alone() as second:
        assert (first, second) == (True, False)


def test_a_run_that_cannot_be_written_is_compacted_in_the_cache(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write(tmp_path, story(3))
    expected = answers(run)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).startswith(run))
    made = Compactor(run)
    assert made.place.startswith(str(tmp_path / "cache"))
    assert made.compact() > 0
    assert not os.path.exists(os.path.join(run, layout.COMPACT))
    digest = Digest(open_run(run))
    assert any(each.parts for streams in digest._streams() for each in streams.all.values())
    assert_same(answers(run), expected)


def test_much_that_is_not_compacted_is_waited_for(tmp_path) -> None:
    run = write(tmp_path, story(0))
    digest = Digest(open_run(run), most_bytes=10_000)
    assert digest.is_preparing
    assert digest.progress == 0.0
    assert digest.system().num_rows == 0
    Compactor(run).compact()
    assert not digest.refresh().is_preparing
    assert digest.progress is None
    assert_same_table("machine", digest.system(), answers(run)["machine"])


@pytest.mark.slow
def test_a_compaction_that_is_killed_goes_on(tmp_path) -> None:
    run = write_day(tmp_path / "run", Day(hours=1, cores=16, gpus=1, steps=40_000, tensors=50))
    expected = without_compact(run, answers)
    for patience in (1.0, 1.5, 2.0, 2.5):
        process = subprocess.Popen([sys.executable, "-m", "leadline.compaction", run])
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert_same(answers(run), expected)
    assert subprocess.run([sys.executable, "-m", "leadline.compaction", run], check=False).returncode == 0
    assert_same(answers(run), expected)


def test_the_rows_of_a_short_time_are_read_from_where_they_stand(tmp_path) -> None:
    run = write(tmp_path, story(4))
    opened = open_run(run)
    Compactor(run).compact()
    digest = Digest(opened)
    start, end = digest.span_ns()
    for share in (0.02, 0.3, 0.6, 0.97):
        low = start + int((end - start) * share * 0.02)
        asked = {"worker": "rank0-11", "start_ns": low, "end_ns": low + 3 * SECOND_NS}
        expected = opened.timeline(**asked)
        found = digest.timeline(**asked)
        assert found.num_rows == expected.num_rows > 0
        order = [(name, "ascending") for name in ("start_ns", "step", "name")]
        assert found.sort_by(order).equals(expected.sort_by(order))


@pytest.mark.parametrize("column", ["time_ns", "total"])
def test_what_is_not_there_has_the_type_of_its_column(tmp_path, column: str) -> None:
    run = write(tmp_path, story(5))
    Compactor(run).compact()
    path = next(each for each in files_of(run) if f"{os.sep}system{os.sep}" in each)
    part = ParquetPart(path, 0, 0)
    keys, nothing = part.read(0, [], [column], axis="time_ns")
    assert (len(keys), len(nothing[column])) == (0, 0)
    assert nothing[column].dtype == part.read(0, list(part.keys.values()), [column])[1][column].dtype
