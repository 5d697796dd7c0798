"""Sums of the phases of a step, with a clock that the test moves."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass, field
from threading import Thread, get_ident

import pytest

from leadline.instrumentation.timeline.step_timeline import StepTimeline
from leadline.instrumentation.timeline.thread_clock import ThreadClock
from leadline.records.event import Event
from leadline.records.phases import HAS_READY, HEAD, PHASE_FIELDS, ROW, STEP_PHASES


@dataclass
class Clock:
    now_ns: int = 1_000

    def __call__(self) -> int:
        return self.now_ns


class FakeThreadClock(ThreadClock):
    """A thread's clock that the test moves."""

    def __init__(self) -> None:
        self.cpu_ns = 0
        self.run_delay_ns = 7
        self.threads: list[int] = []

    def take_thread(self) -> None:
        self.threads.append(get_ident())

    def __call__(self) -> int:
        return self.cpu_ns + self.run_delay_ns


@dataclass
class Own:
    """What watching has taken."""

    own_ns: int = 0

    def until(self, now_ns: int) -> int:
        return self.own_ns


@dataclass
class Sink:
    rows: list[dict[str, int]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def put_phases(self, row: bytes) -> None:
        values = struct.unpack(f"<{len(row) // 8}q", row)
        names = [*HEAD, *(f"{phase}_{what}" for phase in STEP_PHASES for what in PHASE_FIELDS)]
        self.rows.append(dict(zip(names, values, strict=True)))

    def put_event(self, event: Event) -> None:
        self.events.append(event)


class Training:
    """Plays a training, phase by phase."""

    def __init__(self) -> None:
        self.clock, self.own, self.sink, self.thread = Clock(), Own(), Sink(), FakeThreadClock()
        self.timeline = StepTimeline(self.own, clock=self.clock, thread_clock=self.thread)
        self.timeline.open(self.sink)
        self.step = 0

    def wait(self, ns: int) -> None:
        self.clock.now_ns += ns

    def work(self, ns: int) -> None:
        """Use a processor."""
        self.wait(ns)
        self.thread.cpu_ns += ns

    def queue(self, ns: int) -> None:
        """Wait for a processor."""
        self.wait(ns)
        self.thread.run_delay_ns += ns

    def watch(self, ns: int) -> None:
        """Watching takes time."""
        self.wait(ns)
        self.own.own_ns += ns

    def data(self, ns: int) -> None:
        assert not self.timeline.is_elsewhere()
        self.timeline.begin_data()
        self.wait(ns)
        self.timeline.end_data()

    def backward(self, ns: int) -> None:
        self.timeline.end_forward()
        self.timeline.begin_backward()
        self.wait(ns)
        self.timeline.end_backward()

    def update(self, ns: int) -> None:
        self.timeline.begin_update()
        self.wait(ns)
        self.timeline.end_update()

    def end(self) -> dict[str, int]:
        self.timeline.end_step(self.step)
        self.step += 1
        return self.sink.rows[-1]

    def events(self, name: str) -> list[Event]:
        return [event for event in self.sink.events if event.name == name]


def durations(row: dict[str, int]) -> dict[str, int]:
    """Return the duration of each phase; ``host`` only where the call of the model was observed."""
    return {phase: row[f"{phase}_ns"] for phase in STEP_PHASES if phase != "host" or row["host_count"]}


def test_a_step_is_the_sum_of_its_phases_and_gaps() -> None:
    training = Training()
    for _ in range(2):
        training.data(10)
        training.wait(20)
        training.backward(40)
        training.wait(5)
        training.update(80)
        row = training.end()
    assert durations(row) == {"data": 10, "forward": 20, "backward": 40, "optimizer": 80}
    assert row["duration_ns"] == 155
    assert (row["step"], row["start_ns"], row["data_at"]) == (1, 1155, 1155)
    assert (row["forward_at"], row["backward_at"], row["optimizer_at"]) == (1165, 1185, 1230)
    assert [row[f"{phase}_count"] for phase in STEP_PHASES] == [1, 0, 1, 1, 1]


def test_without_a_loader_the_forward_pass_begins_with_the_step() -> None:
    training = Training()
    training.backward(1)
    training.update(1)
    training.end()
    training.wait(30)
    training.backward(7)
    training.update(3)
    row = training.end()
    assert durations(row) == {"data": 0, "forward": 30, "backward": 7, "optimizer": 3}
    assert row["data_count"] == 0


def test_the_time_before_the_model_is_called_is_host_work() -> None:
    training = Training()
    training.backward(1)
    training.update(1)
    training.end()
    training.wait(30)
    training.watch(100)
    training.timeline.begin_model()
    training.wait(20)
    training.backward(7)
    training.update(3)
    row = training.end()
    assert durations(row) == {"data": 0, "host": 30, "forward": 20, "backward": 7, "optimizer": 3}
    assert (row["host_at"], row["forward_at"]) == (1_002, 1_132)


def test_a_compilation_between_the_phases_is_overhead_of_its_step_alone() -> None:
    training = Training()
    training.backward(1)
    training.update(1)
    training.end()
    training.wait(500)
    training.timeline.add_own(500)
    training.watch(3)
    training.backward(7)
    assert training.end()["own_ns"] == 503
    training.backward(7)
    training.watch(2)
    assert training.end()["own_ns"] == 2


def test_the_host_works_before_each_micro_batch() -> None:
    training = Training()
    for _ in range(2):
        for _ in range(3):
            training.data(10)
            training.wait(4)
            training.timeline.begin_model()
            training.wait(20)
            training.backward(40)
        training.update(5)
        row = training.end()
    assert durations(row) == {"data": 30, "host": 12, "forward": 60, "backward": 120, "optimizer": 5}
    assert row["host_count"] == 3


def test_a_model_called_within_a_closure_is_part_of_its_forward_pass() -> None:
    training = Training()
    training.timeline.begin_update()
    training.wait(10)
    training.timeline.begin_model()
    training.wait(5)
    training.backward(20)
    training.timeline.end_update()
    row = training.end()
    assert (row["host_count"], row["forward_ns"], row["nesting"]) == (0, 15, 2 | 4)


@pytest.mark.parametrize(
    ("phase", "worked"), [("data", 1), ("host", 2), ("forward", 3), ("backward", 4), ("optimizer", 5)]
)
@pytest.mark.parametrize("is_queued", [False, True])
def test_the_ready_time_of_a_phase_excludes_its_waits(phase: str, worked: int, is_queued: bool) -> None:
    training = Training()
    training.timeline.facts["device"] = "cpu"
    steps = dict.fromkeys(STEP_PHASES, 0) | {phase: worked}
    work = training.queue if is_queued else training.work
    for _ in range(2):
        training.timeline.begin_data()
        training.wait(100)
        work(steps["data"])
        training.timeline.end_data()
        training.wait(100)
        work(steps["host"])
        training.timeline.begin_model()
        training.wait(100)
        work(steps["forward"])
        training.timeline.end_forward()
        training.work(77)  # between the phases
        training.timeline.begin_backward()
        training.wait(100)
        work(steps["backward"])
        training.timeline.end_backward()
        training.work(77)
        training.timeline.begin_update()
        training.wait(100)
        work(steps["optimizer"])
        training.timeline.end_update()
        row = training.end()
    assert row["nesting"] == HAS_READY
    assert {name: row[f"{name}_ready_ns"] for name in STEP_PHASES} == steps
    assert row["ready_ns"] == training.thread()
    assert row["run_delay_ns"] == 7 + 2 * worked * is_queued


def test_the_times_of_the_thread_are_samples() -> None:
    training = Training()
    training.timeline.facts["device"] = "cpu"
    rows = []
    for _ in range(45):
        training.wait(100_000_000)
        training.backward(1)
        training.update(1)
        rows.append(training.end())
    expected = [*range(8), 24, 41]
    assert [step for step, row in enumerate(rows) if row["nesting"] & HAS_READY] == expected
    assert [step for step, row in enumerate(rows) if row["run_delay_ns"] == 7] == expected
    assert {row["run_delay_ns"] for row in rows} == {7, -1}


def test_the_run_delay_is_known_where_the_phases_are_timed_on_a_device() -> None:
    training = Training()
    training.backward(1)
    training.update(1)
    row = training.end()
    assert (row["nesting"] & HAS_READY, row["ready_ns"], row["run_delay_ns"]) == (0, 7, 7)


def test_a_thread_that_takes_over_has_a_clock_of_its_own() -> None:
    training = Training()
    thread = Thread(target=lambda: training.update(1))
    thread.start()
    thread.join()
    assert training.thread.threads == [thread.ident]


def test_micro_batches_are_added_up() -> None:
    training = Training()
    training.data(1)
    training.backward(1)
    training.update(1)
    training.end()
    for _ in range(4):
        training.data(10)
        training.wait(20)
        training.backward(40)
    training.update(5)
    row = training.end()
    assert durations(row) == {"data": 40, "forward": 80, "backward": 160, "optimizer": 5}
    assert (row["duration_ns"], row["data_count"], row["backward_count"]) == (285, 4, 4)


def test_overhead_is_in_no_phase() -> None:
    training = Training()
    training.backward(1)
    training.update(1)
    training.end()
    training.wait(10)
    training.watch(1_000)
    training.timeline.end_forward()
    training.watch(500)
    training.timeline.begin_backward()
    training.wait(20)
    training.watch(3_000)  # an optimizer that steps from a hook of its parameter is captured within the pass
    training.timeline.end_backward()
    training.timeline.begin_update()  # as a gradient scaler's
    training.watch(7_000)
    training.wait(5)
    training.timeline.end_update()
    row = training.end()
    assert durations(row) == {"data": 0, "forward": 10, "backward": 20, "optimizer": 5}
    assert row["own_ns"] == 11_500
    assert row["duration_ns"] == 11_535


def test_overhead_of_a_forward_pass_is_not_part_of_it() -> None:
    training = Training()
    training.backward(1)
    training.update(1)
    training.end()
    for own_ns in (30, 30):  # the first micro-batch is captured, the second is not
        training.wait(100)
        training.timeline.end_forward(own_ns)
        training.timeline.begin_backward()
        training.timeline.end_backward()
    training.update(1)
    assert durations(training.end())["forward"] == 170


def test_a_closure_is_evaluated_within_the_optimizer() -> None:
    training = Training()
    training.data(1)
    training.timeline.begin_update()
    for _ in range(3):
        training.wait(10)
        training.backward(20)
    training.wait(4)
    training.timeline.end_update()
    row = training.end()
    assert durations(row) == {"data": 1, "forward": 30, "backward": 60, "optimizer": 94}
    assert row["nesting"] == 2 | 4


def test_optimizers_that_step_within_the_backward_pass() -> None:
    training = Training()
    training.timeline.end_forward()
    training.timeline.begin_backward()
    for _ in range(2):
        training.wait(10)
        training.update(3)
    training.timeline.end_backward()
    row = training.end()
    assert durations(row) == {"data": 0, "forward": 0, "backward": 26, "optimizer": 6}
    assert (row["nesting"], row["optimizer_count"]) == (8, 2)


def test_a_phase_left_by_an_error_begins_again() -> None:
    training = Training()
    training.backward(1)
    training.timeline.begin_update()  # raises, and never ends
    training.wait(1_000)
    training.timeline.leave_update()
    training.timeline.end_forward()
    training.timeline.begin_backward()
    training.wait(500)  # raises too
    training.backward(2)
    training.update(3)
    row = training.end()
    assert (row["backward_ns"], row["optimizer_ns"]) == (3, 3)
    assert row["duration_ns"] >= sum(durations(row).values()) == row["forward_ns"] + 6


def test_an_eval_step_lasts_to_the_next_wait_for_data() -> None:
    training = Training()
    training.backward(1)
    training.update(1)
    training.end()
    for _ in range(2):
        training.data(10)
        training.timeline.begin_eval()
        training.wait(30)
    training.data(7)  # the training's next batch
    training.timeline.end_eval(1, "eval", 5)
    assert training.sink.rows[-1]["mode"] == 1
    training.wait(2)
    training.backward(4)
    training.update(1)
    row = training.end()
    assert durations(row) == {"data": 7, "forward": 2, "backward": 4, "optimizer": 1}
    assert row["duration_ns"] == 14


def test_eval_steps_follow_one_another() -> None:
    training = Training()
    training.backward(1)
    training.update(1)
    training.end()
    for step in range(1, 4):
        training.data(10)
        if step > 1:
            training.timeline.end_eval(step - 1, "eval", 0)
        training.timeline.begin_eval()
        training.wait(30)
    training.timeline.end_eval(3, "eval", 0)
    actual = [(row["mode"], row["duration_ns"], row["data_ns"], row["forward_ns"]) for row in training.sink.rows[1:]]
    assert actual == [(1, 40, 10, 30)] * 3


def test_a_discarded_eval_step_becomes_part_of_training() -> None:
    training = Training()
    training.backward(1)
    training.update(1)
    training.end()
    training.data(10)
    training.timeline.begin_eval()
    training.wait(30)
    training.timeline.end_forward()
    training.timeline.discard_eval()
    training.timeline.begin_backward()
    training.wait(5)
    training.timeline.end_backward()
    training.update(1)
    row = training.end()
    assert (row["mode"], row["duration_ns"], row["data_ns"], row["backward_ns"]) == (0, 46, 10, 5)
    assert row["forward_ns"] == 30


def test_collectives_are_summed_by_operation_group_and_phase() -> None:
    training = Training()
    training.data(1)
    for ns in (5, 6):
        begun = training.clock()
        training.wait(ns)
        training.timeline.collective(begun, "broadcast", "world", 100)
    training.timeline.end_forward()
    training.timeline.begin_backward()
    begun = training.clock()
    training.wait(9)
    training.timeline.collective(begun, "all_reduce", "7", None)
    training.timeline.end_backward()
    begun = training.clock()
    training.wait(2)
    training.timeline.collective(begun, "all_reduce", "7", 8)
    training.update(1)
    row = training.end()
    assert durations(row) == {"data": 1, "forward": 11, "backward": 9, "optimizer": 1}
    actual = sorted((event.duration_ns, event.args) for event in training.events("collective"))
    assert actual == [
        (2, {"count": 1, "op": "all_reduce", "group": "7", "bytes": 8}),
        (9, {"count": 1, "op": "all_reduce", "group": "7", "within": "backward"}),
        (11, {"count": 2, "op": "broadcast", "group": "world", "within": "forward", "bytes": 200}),
    ]
    assert {(event.step, event.phase) for event in training.events("collective")} == {(0, "train")}


def test_a_checkpoint_is_not_part_of_the_forward_pass() -> None:
    training = Training()
    training.backward(1)
    training.update(1)
    training.end()
    begun = training.clock()
    training.wait(1_000)
    training.timeline.call("checkpoint", begun)
    training.wait(20)
    training.backward(4)
    training.update(1)
    assert durations(training.end())["forward"] == 20
    (event,) = training.events("checkpoint")
    assert (event.step, event.duration_ns, event.args) == (1, 1_000, {"count": 1})


def test_initialization_and_finalization_are_events() -> None:
    training = Training()
    training.wait(500)
    training.data(10)
    training.wait(20)
    training.backward(40)
    training.update(5)
    training.end()
    training.wait(77)
    training.timeline.finish(0)
    actual = {event.name: (event.phase, event.step, event.duration_ns) for event in training.sink.events}
    assert actual == {
        "setup": ("initialization", 0, 500),
        "first_step": ("initialization", 0, 75),
        "finalization": ("finalization", 0, 77),
    }


def test_imports_are_an_event_if_the_import_attached_us() -> None:
    timeline = StepTimeline(Own(), time.perf_counter_ns())
    sink = Sink()
    timeline.open(sink)
    timeline.end_step(0)
    imports = next(event for event in sink.events if event.name == "imports")
    assert imports.duration_ns > 0
    assert imports.start_ns + imports.duration_ns <= time.time_ns()


def test_data_read_before_the_training_is_setup() -> None:
    training = Training()
    training.timeline.begin_loader(0, 100)
    training.timeline.end_data()
    training.data(5_000)
    training.wait(100)
    training.timeline.begin_loader(2, 8)
    training.wait(3)
    training.timeline.end_data()
    training.data(10)
    training.backward(1)
    training.update(1)
    row = training.end()
    assert row["duration_ns"] == 15
    assert (row["data_ns"], row["data_count"]) == (13, 2)
    assert training.timeline.facts == {"dataloader_workers": 2, "batch_size": 8}


def test_work_of_other_threads_is_not_part_of_the_step() -> None:
    training = Training()
    training.backward(1)
    training.update(1)
    training.end()
    actual: list[bool] = []

    def elsewhere() -> None:
        actual.append(training.timeline.is_elsewhere())
        training.backward(1_000)
        training.update(1_000)

    thread = Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert actual == [True]
    assert not training.timeline.is_elsewhere()
    training.backward(2)
    training.update(3)
    assert durations(training.end()) == {"data": 0, "forward": 2_000, "backward": 2, "optimizer": 3}


def test_a_training_in_a_thread_of_its_own_is_timed() -> None:
    training = Training()

    def train() -> None:
        training.data(5)
        training.backward(7)
        training.update(3)
        training.end()

    thread = Thread(target=train)
    thread.start()
    thread.join()
    assert durations(training.sink.rows[-1]) == {"data": 5, "forward": 0, "backward": 7, "optimizer": 3}


def test_rows_and_events_before_the_writer_are_kept() -> None:
    training = Training()
    timeline = StepTimeline(training.own, clock=training.clock)
    timeline.end_step(0)
    sink = Sink()
    timeline.open(sink)
    assert [row["step"] for row in sink.rows] == [0]
    assert {event.name for event in sink.events} == {"setup", "first_step"}


def test_a_row_has_the_size_of_its_format() -> None:
    assert ROW.size == 8 * (len(HEAD) + 4 * len(STEP_PHASES))


@pytest.mark.parametrize("count", [1, 5_000])
def test_slow_steps_are_all_written(count: int) -> None:
    training = Training()
    for _ in range(count):
        training.wait(100_000_000)
        training.update(1)
        training.end()
    assert len(training.sink.rows) == count


def test_a_function_that_does_all_of_a_step_is_one_phase() -> None:
    training = Training()
    training.update(1)
    training.end()
    training.wait(4)
    training.timeline.begin_model()
    begun = training.clock()
    training.wait(9)
    training.timeline.call("compute", begun)
    training.wait(2)
    row = training.end()
    (event,) = training.events("compute")
    assert (durations(row)["host"], event.duration_ns, row["duration_ns"]) == (4, 9, 15)
