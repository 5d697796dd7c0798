"""Steps of an asynchronous device, timed by its own clock; the driver is a fake."""

from __future__ import annotations

from dataclasses import dataclass, field

from test_step_timeline import Training, durations

from leadline.records.phases import ON_DEVICE


@dataclass
class Device:
    """A device with one queue that is slower than the host."""

    free_ns: int = 0
    """When its queue will be empty."""
    done_ns: int = 0
    """How far it has come."""
    is_recording: bool = False
    waited: list[int] = field(default_factory=list)
    marks: int = 0

    def compute(self, host_ns: int, ns: int) -> None:
        self.free_ns = max(self.free_ns, host_ns) + ns

    def mark(self) -> int | None:
        self.marks += 1
        return None if self.is_recording else self.free_ns

    def is_past(self, mark: int) -> bool:
        return self.done_ns >= mark

    def wait(self, mark: int) -> None:
        self.waited.append(mark)
        self.done_ns = max(self.done_ns, mark)

    def between_ns(self, first: int, second: int) -> int:
        assert self.done_ns >= second
        return second - first


def train(training: Training, device: Device, *, data_ns: int = 0) -> None:
    """A step whose kernels take 100, 200 and 50 on the device, and 10 each on the host; both wait for the loader."""
    if data_ns:
        training.timeline.begin_data()
        training.wait(data_ns)
        device.free_ns = max(device.free_ns, training.clock())  # it has nothing to do until data comes
        training.timeline.end_data()
    device.compute(training.clock(), 100)
    training.wait(10)
    training.timeline.end_forward()
    training.timeline.begin_backward()
    device.compute(training.clock(), 200)
    training.wait(10)
    training.timeline.end_backward()
    training.timeline.begin_update()
    device.compute(training.clock(), 50)
    training.wait(10)
    training.timeline.end_update()
    training.timeline.end_step(training.step)
    training.step += 1


def watched() -> tuple[Training, Device]:
    training, device = Training(), Device()
    training.timeline.time_on(device)
    train(training, device)  # the first step has no mark at its beginning
    return training, device


def test_the_phases_are_those_of_the_device() -> None:
    training, device = watched()
    train(training, device)
    train(training, device)
    assert len(training.sink.rows) == 1  # the others are still on their way
    device.done_ns = device.free_ns
    training.timeline.poll()
    for row in training.sink.rows[1:]:
        assert durations(row) == {"data": 0, "forward": 100, "backward": 200, "optimizer": 50}
        assert row["duration_ns"] == 350
        assert row["nesting"] & ON_DEVICE


def test_data_time_is_the_wait_of_the_device() -> None:
    training, device = watched()
    train(training, device, data_ns=100)  # is hidden: the device has more to do than that
    hidden = device.free_ns - training.clock()
    assert hidden > 0
    train(training, device, data_ns=hidden + 500)
    device.done_ns = device.free_ns
    training.timeline.poll()
    first, second = training.sink.rows[1:]
    assert first["data_ns"] == 0
    assert second["data_ns"] == 500
    assert second["duration_ns"] == 850


def test_only_the_end_waits_for_the_device() -> None:
    training, device = watched()
    for _ in range(5):
        train(training, device)
    assert device.waited == []
    training.timeline.finish(training.step - 1)
    assert [row["step"] for row in training.sink.rows] == [0, 1, 2, 3, 4, 5]
    assert device.waited


def test_a_recorded_graph_is_timed_by_the_host() -> None:
    training, device = watched()
    device.is_recording = True
    train(training, device)
    device.is_recording = False
    train(training, device)
    train(training, device)
    device.done_ns = device.free_ns
    training.timeline.poll()
    recorded, after, late = training.sink.rows[1:]
    assert durations(recorded) == {"data": 0, "forward": 10, "backward": 10, "optimizer": 10}
    assert not recorded["nesting"] & ON_DEVICE
    assert not after["nesting"] & ON_DEVICE  # where it began is not known
    assert late["nesting"] & ON_DEVICE


def test_the_host_phase_is_the_time_until_the_model_is_called() -> None:
    training, device = watched()
    device.compute(training.clock(), 30)  # a copy of the batch
    training.timeline.begin_model()
    train(training, device)
    device.done_ns = device.free_ns
    training.timeline.poll()
    phases = durations(training.sink.rows[-1])
    assert phases == {"data": 0, "host": 30, "forward": 100, "backward": 200, "optimizer": 50}


def test_steps_that_are_not_written_make_no_marks() -> None:
    training, device = watched()
    training.timeline._rows.sampler.every = 1 << 16
    train(training, device)
    before = device.marks
    for _ in range(50):
        train(training, device)
    assert device.marks == before


def test_a_step_of_very_many_micro_batches_holds_few_marks() -> None:
    """It has the times of the host's clock, and the next step those of the device again."""
    training, device = watched()
    for _ in range(3000):
        training.timeline.end_forward()
        training.timeline.begin_backward()
        training.timeline.end_backward()
    marks = training.timeline._marks
    assert marks is not None
    assert marks.is_broken
    assert len(marks._pairs) == 0
    for _ in range(2):
        train(training, device)
    device.done_ns = device.free_ns
    training.timeline.poll()
    assert [bool(each["nesting"] & ON_DEVICE) for each in training.sink.rows[1:]] == [False, True]
