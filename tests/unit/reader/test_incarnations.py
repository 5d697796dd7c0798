"""Steps that were repeated after a resumption replace the earlier ones in every reader."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import leadline
from leadline.analysis.digest import Digest
from leadline.compaction.compactor import Compactor
from leadline.instrumentation.resumption import Resumption
from leadline.instrumentation.step_context import StepContext
from leadline.instrumentation.timeline.step_clock import SILENT_STEPS
from leadline.reader.feed import Feed
from leadline.reader.incarnations import read_replacements
from leadline.reader.resumption import next_incarnation
from leadline.reader.run import Run
from leadline.reader.stream import BulkStream
from leadline.reader.timegrid import TimeGrid
from leadline.records.documents import WorkerDocument
from leadline.records.event import Event
from leadline.records.incarnations import Incarnation, Incarnations, StepPosition
from leadline.records.request import ChangeCapture, Stop
from leadline.records.series import SeriesLayout, StepStamp, TensorInfo
from leadline.store import layout
from leadline.store.control import new_request_id, write_request
from leadline.store.documents import write_document
from leadline.store.incarnations import begin_incarnation
from leadline.store.run_state import read_workers
from leadline.store.segments import last_ordinal
from leadline.store.tensors import write_tensors
from leadline.store.writer import Writer
from leadline.testing.runs import START_NS, RunWriter

LOSS = SeriesLayout((TensorInfo("loss", ("losses",), (), "float32"),), ((0, "value"),))
SECOND_NS = 1_000_000_000
DEAD = 2**22 + 1
"""A pid that no process has."""


@dataclass
class Process:
    """One process of a training: it continues its rank's streams and records a value at each step."""

    run: str
    rank: int = 0
    first: int | None = None
    """The steps that its optimizer has counted; None: it counts none."""
    counted_before: int | None = None

    def __post_init__(self) -> None:
        self.resumption = Resumption(self.run)
        self.position, self.note = self.resumption.place(self.first) if self.resumption.number else (StepPosition(), "")
        continued = self.resumption.claim_worker(self.rank, os.uname().nodename) if self.resumption.number else None
        self.name, before = continued or (f"rank{self.rank}-{DEAD}", None)
        self.step, self.finished = self.position.global_step, dict(self.position.finished)
        self.writer = Writer(
            self.run,
            self.name,
            host_bytes=1 << 20,
            disk_bytes=None,
            document=self.describe,
            guarded=lambda function: function,
            before=before,
            start=next(reversed(self.resumption.starts), None),
        )

    def describe(self) -> WorkerDocument:
        return WorkerDocument(
            worker=self.name,
            node=os.uname().nodename,
            pid=DEAD,
            starts=self.resumption.starts,
            time_ns=START_NS,
            counted_before=self.counted_before,
        )

    def record(self, value: float, mode: str = "train") -> tuple[str, int, int, float]:
        """Record a step; return its mode, step of the mode, global step and value."""
        stamp = StepStamp(self.step, mode, self.finished.get(mode, 0), START_NS + self.step * SECOND_NS)
        self.writer.put_row(LOSS, stamp, struct.pack("<d", value))
        self.writer.put_event(Event(f"{mode} {value}", self.step, stamp.time_ns))
        write_raw(self.run, self.name, stamp, value)
        self.writer.finish_step(stamp)
        self.finished[mode] = self.finished.get(mode, 0) + 1
        self.step += 1
        return mode, stamp.mode_step, stamp.step, value

    def die(self) -> None:
        """End like a process that was killed after a flush: its document still says that it is running."""
        self.writer.close()
        path = os.path.join(self.run, layout.worker_document(self.name))
        write_document(path, replace(read_workers(self.run)[self.name], state="running", ended_ns=None))


def write_raw(run: str, worker: str, stamp: StepStamp, value: float) -> None:
    folder = os.path.join(run, layout.TENSORS, worker)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(run, layout.tensor_segment(worker, last_ordinal(folder) + 1))
    key = layout.tensor_key(stamp.mode, stamp.step, "raw")
    write_tensors(path, {key: ("F64", (), struct.pack("<d", value))})


def start_again(run: str, resume_step: int | None = None) -> Incarnations:
    incarnations, before = next_incarnation(run, resume_step)
    begin_incarnation(run, incarnations, before)
    return incarnations


@pytest.fixture
def path(tmp_path: Path) -> str:
    writer = RunWriter(str(tmp_path / "run"))
    writer.set_status("Interrupted", ended_ns=START_NS)
    return writer.path


def captured(run: Run) -> list[tuple[str, int, int, float]]:
    table = run.scalars("loss")
    columns = (table[name].to_pylist() for name in ("mode", "mode_step", "step", "value"))
    return sorted(zip(*columns, strict=True), key=lambda row: row[2])


def fed(path: str) -> list[tuple[int, str, float]]:
    feed = Feed(path, TimeGrid(0), with_arrays=True)
    feed.refresh(is_over=True)
    found = []
    for point in feed.points():
        assert len(point.rows) == 1
        assert [float(array.load()) for array in point.arrays] == [point.rows[0].values[0]]
        found.append((point.step, point.mode, float(point.rows[0].values[0])))
    return found


def test_the_latest_incarnation_of_each_step_is_read(path: str) -> None:
    rng = np.random.default_rng(3)
    kept: list[tuple[str, int, int, float]] = []
    for incarnation in range(5):
        reached = sum(row[0] == "train" for row in kept)
        first = int(rng.integers(1, reached + 1)) if incarnation else None
        if incarnation:
            start_again(path)
            # the truth: the training goes back to before this train step, and everything from there on is repeated
            begins = [row[2] for row in kept if row[:2] == ("train", first)]
            kept = [row for row in kept if row[2] < (begins[0] if begins else 1 << 60)]
        process = Process(path, first=first)
        assert process.position.step == (first or 0)
        for step in range(int(rng.integers(4, 9))):
            if rng.random() < 0.3:
                kept.append(process.record(100.0 * incarnation + step + 0.5, "eval"))
            kept.append(process.record(100.0 * incarnation + step))
        process.die()
        run = leadline.open_run(path)
        assert captured(run) == kept
        assert run.damage == []
    assert [row[2] for row in kept] == list(range(len(kept)))
    assert fed(path) == [(step, mode, value) for mode, _, step, value in kept]
    events = run.timeline()
    assert sorted(events["step"].to_pylist()) == [row[2] for row in kept]
    assert set(events["name"].to_pylist()) == {f"{mode} {value}" for mode, _, _, value in kept}
    assert {(tensor.mode, tensor.step): float(tensor.load()) for tensor in run.archive.stored["raw"]} == {
        (mode, step): value for mode, _, step, value in kept
    }
    bulk = BulkStream(path, layout.SERIES, process.name).read(1 << 30)
    assert sorted(step for batches in bulk if batches.rows.any() for step in batches.numbers("step")) == list(
        range(len(kept))
    )


def test_an_open_run_reads_again_once_steps_are_repeated(path: str) -> None:
    first = Process(path)
    before = [first.record(float(step)) for step in range(8)]
    first.die()
    run = leadline.open_run(path)
    feed = Feed(path, TimeGrid(0))
    feed.refresh()
    assert captured(run) == before
    start_again(path)
    assert captured(run.refresh()) == before  # nothing is repeated yet
    second = Process(path, first=5)
    after = [*before[:5], *(second.record(10.0 + step) for step in range(2))]
    second.die()
    assert captured(run.refresh()) == after
    feed.refresh()
    assert feed.has_late_data


def test_rules_wait_until_it_is_known_what_is_replaced(path: str) -> None:
    first = Process(path)
    for step in range(8):
        first.record(float(step))
    first.die()
    start_again(path)
    feed = Feed(path, TimeGrid(0))
    feed.refresh(gone=[first.name])
    assert list(feed.points()) == []
    second = Process(path, first=5)
    second.record(50.0)
    second.die()
    feed.refresh()
    assert [(point.step, float(point.rows[0].values[0])) for point in feed.points()] == [
        *((step, float(step)) for step in range(5)),
        (5, 50.0),
    ]
    assert feed.horizon == 5  # and not 7, up to which the first process had told its data to be complete


def test_a_rank_that_is_not_continued_is_cut_where_the_others_are(path: str) -> None:
    processes = [Process(path, rank) for rank in range(2)]
    for process in processes:
        for step in range(6):
            process.record(10.0 * process.rank + step)
        process.die()
    start_again(path)
    alone = Process(path, 0, first=4)
    alone.record(99.0)
    alone.die()
    steps = {
        worker: [row["step"] for row in leadline.open_run(path).scalars("loss").to_pylist() if row["worker"] == worker]
        for worker in read_workers(path)
    }
    assert steps == {processes[0].name: [0, 1, 2, 3, 4], processes[1].name: [0, 1, 2, 3]}
    os.unlink(os.path.join(path, layout.worker_document(processes[1].name)))
    assert sorted(leadline.open_run(path).scalars("loss")["step"].to_pylist()) == [0, 0, 1, 1, 2, 2, 3, 3, 4]


def test_two_processes_of_a_rank_do_not_continue_the_same_streams(path: str) -> None:
    process = Process(path)
    process.record(1.0)
    process.die()
    start_again(path)
    resumptions = [Resumption(path) for _ in range(2)]
    claimed = [resumption.claim_worker(0, "host") for resumption in resumptions]
    assert [claim and claim[0] for claim in claimed] == [process.name, None]


@pytest.mark.parametrize(
    ("given", "counted", "expected", "note"),
    [
        (None, 5, 5, ""),
        (None, 12, 12, "steps 8 to 11 were not captured"),
        (None, None, 8, "after the last captured step 7"),
        (None, 0, 8, "after the last captured step 7: the optimizer state was not restored"),
        (6, None, 6, ""),
        (6, 2, 6, ""),
    ],
)
def test_the_step_is_that_of_the_optimizer_or_the_option_or_follows_the_last(
    path: str, given: int | None, counted: int | None, expected: int, note: str
) -> None:
    process = Process(path)
    for step in range(8):
        process.record(float(step))
    process.die()
    start_again(path, given)
    again = Process(path, first=counted)
    again.die()
    assert (again.position.step, again.position.global_step) == (expected, expected)
    assert note in again.note
    assert bool(note) == bool(again.note)


def test_what_the_optimizer_had_counted_before_the_run_is_not_counted_again() -> None:
    resumption = Resumption.__new__(Resumption)
    resumption.position, resumption.number = None, 1
    resumption._incarnations = Incarnations(
        starts=(Incarnation(1),), counted_before=1000, positions=(StepPosition(), StepPosition(40, 40))
    )
    assert resumption.place(1030)[0] == StepPosition(30, 30)
    for no_count_of_this_run in (1000, 5, 0):
        assert resumption.place(no_count_of_this_run)[0] == StepPosition(40, 40)


def test_an_optimizer_that_starts_over_hides_no_step_and_its_count_holds_from_then_on(path: str) -> None:
    clock_of: list[int] = []

    def resume(counted: int) -> Process:
        start_again(path)
        context = StepContext(path, lambda: "")
        context.place(counted)
        clock_of.append(context.clock.train_step)
        process = Process(path, first=counted)
        process.counted_before = context.resumption.counted_before
        assert process.position.step == context.clock.train_step
        return process

    first = Process(path)
    for step in range(8):
        first.record(float(step))
    first.die()
    second = resume(0)
    for step in range(6):
        second.record(10.0 + step)
    second.die()
    assert [row[3] for row in captured(leadline.open_run(path))] == [*range(8), *range(10, 16)]
    third = resume(4)  # of its own steps, so of step 12
    third.record(20.0)
    third.die()
    fourth = resume(0)
    fourth.record(30.0)
    fourth.die()
    assert clock_of == [8, 12, 13]
    assert [row[3] for row in captured(leadline.open_run(path))] == [*range(8), *range(10, 14), 20, 30]
    run = leadline.open_run(path)
    assert [what.has_new_state for what in run.interruptions()] == [True, False, True]


def test_the_count_of_an_optimizer_that_takes_over_is_one_of_later_steps(path: str) -> None:
    context = StepContext(path, lambda: "")
    for owner, steps in ((Owner(), 5), (Owner(), 20)):
        context.place(0)
        for _ in range(steps):
            if context.clock.owns(owner):
                context.clock.tick()
    assert context.clock.train_step == 5 + 20 - (SILENT_STEPS - 1)
    assert context.resumption.counted_before == -5


class Owner:
    """An optimizer."""


def test_requests_of_earlier_incarnations_are_obeyed_no_more(path: str) -> None:
    stop = Stop(new_request_id(), reason="test", by="user", time_ns=1)
    change = ChangeCapture(new_request_id(), collection="losses", added=(), by="user", time_ns=1)
    for request in (stop, change):
        write_request(path, request)
    assert start_again(path).requests == (stop.id,)


def test_compaction_leaves_out_what_is_replaced(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_COMPACT_BYTES", "1")
    first = Process(path)
    for step in range(8):
        first.record(float(step))
    first.die()
    assert Compactor(path).compact(is_final=True) > 0
    start_again(path)
    assert Compactor(path).compact(is_final=True) == 0  # not known yet what is replaced
    second = Process(path, first=3)
    for step in range(3):
        second.record(30.0 + step)
    second.die()
    assert Compactor(path).compact(is_final=True) > 0
    table = Digest(leadline.open_run(path)).statistic("loss", "value", points=100)
    assert table["value"].to_pylist() == [0.0, 1.0, 2.0, 30.0, 31.0, 32.0]


def test_moments_of_an_interruption_are_not_evaluated(path: str) -> None:
    process = Process(path)
    for step in range(4):
        process.record(float(step))
    process.die()
    incarnations, before = next_incarnation(path)
    start = replace(incarnations.starts[0], ended_ns=START_NS + 5 * SECOND_NS, started_ns=START_NS + 3600 * SECOND_NS)
    begin_incarnation(path, replace(incarnations, starts=(start,)), before)
    second = Process(path, first=4)
    second.step += 3605  # an hour later
    second.record(4.0)
    second.die()
    grid = TimeGrid(START_NS, path)
    feed = Feed(path, grid)
    grid.refresh(is_over=True)
    feed.refresh(is_over=True)
    scans = list(grid.scans())
    moments = [(scan.time_ns - START_NS) // SECOND_NS for scan in scans]
    assert max(end - begin for begin, end in pairwise(moments)) > 3500
    assert next(scan.last_record_ns for scan in scans if scan.time_ns > start.started_ns) is None
    assert scans[-1].last_record_ns is not None


def test_a_run_that_was_started_once_costs_one_stat(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Callable[[], None]:
        raise AssertionError("a document was read")

    monkeypatch.setattr("leadline.reader.incarnations.read_workers", fail)
    monkeypatch.setattr("leadline.reader.incarnations.read_incarnations", fail)
    assert read_replacements(path).of("rank0-1") == ()
