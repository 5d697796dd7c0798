"""Queries of compacted runs give the same results as those of the segments, also after damage."""

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
import pyarrow.parquet as pq
import pytest
from long_runs import Day, write_day
from timelines import gpu, step_rows

from leadline.analysis.digest import Digest
from leadline.compaction import compactor, part_writer
from leadline.compaction.compactor import Compactor
from leadline.compaction.part_writer import merge_parts
from leadline.reader.compacted import DamagedPartError
from leadline.reader.compacted import Part as CompactedPart
from leadline.reader.rollups import SAMPLES, VALUES
from leadline.reader.run import open_run
from leadline.store import layout
from leadline.testing.runs import SECOND_NS, START_NS, Capture, Part, RunWriter, SystemSample

Answers = dict[str, Any]
QUARTER = Day(hours=0.25, cores=4, gpus=1, steps=3000, tensors=6, every=10)


def scenario(seed: int, steps: int = 250) -> list[Part]:
    """Return two workers with separate clocks, non-finite values, and collectives written after their step."""
    chance = random.Random(seed)
    parts: list[tuple[int, Part]] = []
    for worker in ("rank0-11", "rank10-12"):
        at_ns = START_NS
        for step in range(steps):
            mode = "eval" if step % 9 == 8 else "train"
            phases = {name: chance.uniform(100, 900) for name in ("data", "forward", "backward")}
            phases["collective"] = chance.uniform(0, phases["backward"])
            rows = step_rows(step, at_ns, phases, worker=worker, mode=mode, within={"collective": "backward"})
            at_ns = max(row.event.start_ns + row.event.duration_ns for row in rows)
            parts += [(at_ns + chance.choice([0, 0, SECOND_NS]), row) for row in rows]
            loss = chance.choice([1.0, 1.0, math.nan, -math.inf]) * chance.random()
            values = {"loss": {"value": loss}}
            if step % 3 == 0:
                values |= {"gradient/a.weight": {"l2": loss}, "gradient/b.weight": {"l2": 1.0}}
            parts.append((at_ns, Capture(step, values, worker=worker, mode=mode, mode_step=step // 2, time_ns=at_ns)))
    for index in range(600):
        at_ns = START_NS + index * SECOND_NS
        parts += [(at_ns, SystemSample(at_ns, chance.uniform(0, 100), gpu(number))) for number in (0, 1, 10)]
    return [part for _, part in sorted(parts, key=lambda part: part[0])]


def answers(run: str) -> Answers:
    """Return the results of the charts' queries, for the whole run and parts of it."""
    digest = Digest(open_run(run))
    start, end = digest.span_ns()
    middle, near = (start + end) // 2 + 12_345, start + (end - start) // 5
    return {
        "channels": digest.channels(),
        "span": (start, end),
        "job": digest.job().to_dict(),
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
        "loss, fewest points": digest.scalar("loss", points=4),
        "loss, near": digest.scalar("loss", start_step=100, end_step=150),
        "gradient": digest.statistic("gradient/a.weight", "l2", mode="train", points=11),
        "layers": digest.layers("gradients", "l2", points=12),
        "layers, fewest points": digest.layers("gradients", "l2", points=4),
        "events": digest.events(),
    }


def assert_same(actual: Answers, expected: Answers) -> None:
    for name, result in expected.items():
        if isinstance(result, pa.Table):
            assert_same_table(name, actual[name], result)
        elif name.startswith("layers"):
            assert actual[name]["tensors"] == result["tensors"]
            assert actual[name]["steps"] == result["steps"]
            np.testing.assert_array_equal(actual[name]["values"], result["values"])
        elif name.startswith("phases"):
            assert actual[name] == pytest.approx(result, rel=1e-12), name
        else:
            assert actual[name] == result, name


def assert_same_table(name: str, actual: pa.Table, expected: pa.Table) -> None:
    assert actual.schema == expected.schema, name
    assert actual.num_rows == expected.num_rows, name
    for column in expected.column_names:
        left, right = actual[column], expected[column]
        if pa.types.is_floating(left.type):
            np.testing.assert_allclose(left.to_numpy(), right.to_numpy(), rtol=1e-12, err_msg=f"{name}: {column}")
        else:
            assert left.to_pylist() == right.to_pylist(), f"{name}: {column}"


@pytest.fixture(autouse=True)
def _small_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write many small files, some of which are merged."""
    monkeypatch.setattr(compactor, "_PASS_BYTES", 20_000)
    monkeypatch.setattr(compactor, "_MIN_BYTES", 20_000)
    monkeypatch.setattr(compactor, "_MIN_FINAL_BYTES", 1)
    monkeypatch.setattr(compactor, "LARGE_BYTES", 100_000)


def write(tmp_path, parts: list[Part], *, compresses: bool = False) -> str:
    writer = RunWriter(tmp_path / "run", batch_rows=5, segment_batches=60, compresses=compresses)
    return writer.write_all(parts).end().path


def files_of(run: str) -> list[str]:
    folder = os.path.join(run, layout.COMPACT)
    return sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if name != "lock")


@pytest.mark.parametrize("seed", range(3))
def test_a_compacted_run_gives_the_same_results(tmp_path, seed: int) -> None:
    run = write(tmp_path, scenario(seed))
    expected = answers(run)
    assert Compactor(run).compact() > 10
    assert_same(answers(run), expected)
    assert any("000001-000008" in path for path in files_of(run))
    digest = Digest(open_run(run))
    assert all(not stream.ranges for stream in digest._streams())


def test_a_compacted_run_of_compressed_segments_gives_the_same_results(tmp_path) -> None:
    run = write(tmp_path, scenario(3), compresses=True)
    expected = answers(run)
    assert Compactor(run).compact() > 10
    assert_same(answers(run), expected)


def test_a_long_run_gives_the_same_results_at_every_level(tmp_path) -> None:
    run = write_day(tmp_path / "run", QUARTER)
    expected = answers(run)
    Compactor(run).compact()
    assert_same(answers(run), expected)


def test_nothing_else_of_a_run_changes(tmp_path) -> None:
    run = write(tmp_path, scenario(0))
    before = {path: (os.stat(path).st_mtime_ns, os.stat(path).st_size) for path in walk(run)}
    Compactor(run).compact()
    after = {path: (os.stat(path).st_mtime_ns, os.stat(path).st_size) for path in walk(run)}
    assert {path: data for path, data in after.items() if f"/{layout.COMPACT}/" not in path} == before
    assert {os.stat(path).st_mode & 0o777 for path in files_of(run)} == {0o600}


def test_files_that_will_not_be_merged_are_closed(tmp_path) -> None:
    run = write(tmp_path, scenario(0))
    compacting = Compactor(run)
    compacting.compact()
    opened = {os.path.realpath(path) for path in walk("/proc/self/fd")}
    of_several_passes = {path: len(set(Path(path).stem.split("-"))) > 1 for path in files_of(run)}
    assert set(of_several_passes.values()) == {False, True}
    assert {path: path not in opened for path in of_several_passes} == of_several_passes


def walk(folder: str) -> list[str]:
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]


def test_a_growing_run_is_compacted(tmp_path) -> None:
    parts = scenario(5)
    writer = RunWriter(tmp_path / "run", batch_rows=5, segment_batches=60)
    digest: Digest | None = None
    for start in range(0, len(parts), len(parts) // 4):
        for part in parts[start : start + len(parts) // 4]:
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


def without_compact(run: str, query: Callable[[str], Any]) -> Any:
    """Return the result of a query of a copy of a run without derived files."""
    copy = f"{run}-bare"
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns(layout.COMPACT))
    try:
        return query(copy)
    finally:
        shutil.rmtree(copy)


@pytest.mark.parametrize("harm", ["torn", "empty", "other bytes", "removed", "another version"])
def test_a_damaged_file_is_ignored_and_written_again(tmp_path, harm: str) -> None:
    run = write(tmp_path, scenario(1))
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
        data = data.replace(b'"format": 2', b'"format": 1')
    else:
        for offset in range(40, len(data) // 2, 97):
            data[offset] ^= 0x55
    Path(path).write_bytes(data)


def test_no_data_are_lost_when_the_folder_is_removed(tmp_path) -> None:
    run = write(tmp_path, scenario(2))
    expected = answers(run)
    Compactor(run).compact()
    digest = Digest(open_run(run))
    shutil.rmtree(os.path.join(run, layout.COMPACT))
    assert_same_table("loss", digest.refresh().scalar("loss"), expected["loss"])
    assert_same(answers(run), expected)


def test_small_runs_are_left_alone(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compactor, "LARGE_BYTES", 1 << 30)
    assert not Compactor(write(tmp_path, scenario(0, steps=20))).is_large()


def test_only_one_process_compacts(tmp_path) -> None:
    run = write(tmp_path, scenario(0, steps=20))
    with Compactor(run).lock() as first, Compactor(run).lock() as second:
        assert (first, second) == (True, False)


def test_a_read_only_run_is_compacted_in_the_cache(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write(tmp_path, scenario(3))
    expected = answers(run)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).startswith(run))
    cached = Compactor(run)
    assert cached.folder.startswith(str(tmp_path / "cache"))
    assert cached.compact() > 0
    assert not os.path.exists(os.path.join(run, layout.COMPACT))
    digest = Digest(open_run(run))
    assert any(stream.parts for stream in digest._streams())
    assert_same(answers(run), expected)


def test_a_digest_waits_for_the_compaction_of_much_data(tmp_path) -> None:
    run = write(tmp_path, scenario(0))
    digest = Digest(open_run(run), max_bytes=10_000)
    assert digest.is_preparing
    assert digest.progress == 0.0
    assert digest.system().num_rows == 0
    Compactor(run).compact()
    assert not digest.refresh().is_preparing
    assert digest.progress is None
    assert_same_table("machine", digest.system(), answers(run)["machine"])


@pytest.mark.slow
def test_a_killed_compaction_continues(tmp_path) -> None:
    run = write_day(tmp_path / "run", Day(hours=1, cores=16, gpus=1, steps=40_000, tensors=50))
    expected = without_compact(run, answers)
    for timeout in (1.0, 1.5, 2.0, 2.5):
        process = subprocess.Popen([sys.executable, "-m", "leadline.compaction", run])
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert_same(answers(run), expected)
    assert subprocess.run([sys.executable, "-m", "leadline.compaction", run], check=False).returncode == 0
    assert_same(answers(run), expected)


def test_the_rows_of_a_short_interval_are_read_from_the_segments(tmp_path) -> None:
    run = write(tmp_path, scenario(4))
    opened = open_run(run)
    Compactor(run).compact()
    digest = Digest(opened)
    start, end = digest.span_ns()
    for share in (0.02, 0.3, 0.6, 0.97):
        low = start + int((end - start) * share * 0.02)
        interval = {"worker": "rank0-11", "start_ns": low, "end_ns": low + 3 * SECOND_NS}
        expected = opened.timeline(**interval)
        actual = digest.timeline(**interval)
        assert actual.num_rows == expected.num_rows > 0
        order = [(name, "ascending") for name in ("start_ns", "step", "name")]
        assert actual.sort_by(order).equals(expected.sort_by(order))


@pytest.mark.parametrize("column", ["time_ns", "total"])
def test_an_empty_selection_has_the_type_of_its_column(tmp_path, column: str) -> None:
    run = write(tmp_path, scenario(5))
    Compactor(run).compact()
    path = next(path for path in files_of(run) if f"{os.sep}system{os.sep}" in path)
    part = CompactedPart(path, 0, 0, SAMPLES)
    empty = part.read([])
    assert (len(empty["key"]), len(empty[column])) == (0, 0)
    assert empty[column].dtype == part.read(list(part.keys))[column].dtype


def test_a_reader_keeps_the_files_that_a_merge_has_removed(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write(tmp_path, scenario(6))
    expected = answers(run)["loss"]
    with monkeypatch.context() as patched:
        patched.setattr(compactor, "_MERGE_COUNT", 1000)
        Compactor(run).compact()
    digest = Digest(open_run(run))
    before = files_of(run)
    path = next(path for path in before if f"{os.sep}series{os.sep}" in path)
    small = compactor.PartChain(run, VALUES, path.split(os.sep)[-2])
    small.refresh()
    merge_parts(run, VALUES, path.split(os.sep)[-2], small.parts)
    assert len(files_of(run)) == len(before) - len(small.parts) + 1 < len(before)
    assert_same_table("loss", digest.scalar("loss"), expected)
    assert_same_table("loss", digest.refresh().scalar("loss"), expected)


def test_only_the_row_groups_of_a_key_are_read(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_writer, "_GROUP_ROWS", 20)
    run = write(tmp_path, scenario(7, steps=40))
    Compactor(run).compact()
    path = next(path for path in files_of(run) if f"{os.sep}system{os.sep}" in path)
    keys = list(CompactedPart(path, 0, 0, SAMPLES).keys)
    pages = pq.ParquetFile(path).metadata.row_group(0).column(2)
    with open(path, "r+b") as file:
        file.seek(pages.data_page_offset)
        file.write(bytes(pages.total_compressed_size))
    part = CompactedPart(path, 0, 0, SAMPLES)
    assert len(part.read(keys[-1:])["total"]) > 0
    with pytest.raises(DamagedPartError):
        part.read(keys[:1])
