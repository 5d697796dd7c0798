"""Steps whose hooks are handled later are recorded like those whose hooks are handled at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hooked_run import scalars, watch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import leadline
import leadline.torch
from leadline.instrumentation.timeline.deferred_calls import DeferredCalls
from leadline.instrumentation.timeline.step_timeline import StepTimeline
from leadline.reader.run import Run
from leadline.records.phases import STEP, STEP_PHASES
from leadline.training.recorder.step_recorder import StepRecorder

STEPS = 60
LOSS = "CrossEntropyLoss_output_0"
PATIENCE_SECONDS = 60.0


class Loop:
    """A training whose losses are known."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.data = TensorDataset(torch.randn(STEPS * 4, 4), torch.randint(0, 2, (STEPS * 4,)))
        self.criterion = nn.CrossEntropyLoss()
        self.losses: list[float] = []

    def __call__(self) -> None:
        for inputs, labels in DataLoader(self.data, batch_size=4):
            self.before_step()
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(inputs), labels)
            self.losses.append(float(loss.detach()))
            loss.backward()
            self.update()

    def before_step(self) -> None:
        """Do something between steps."""

    def update(self) -> None:
        self.optimizer.step()


def test_the_model_of_a_captured_step_after_deferred_ones_is_seen(tmp_path: Path) -> None:
    run = watch(tmp_path, Loop(), "losses:every=1", "inputs:every=10")
    table = run.sql("select distinct name, mode_step from series where name like '%input_0' order by mode_step")
    steps: dict[str, list[int]] = {}
    for row in table.to_pylist():
        steps.setdefault(row["name"], []).append(row["mode_step"])
    assert steps == {"Sequential_input_0": list(range(0, STEPS, 10))}


class WithLog(Loop):
    def before_step(self) -> None:
        if len(self.losses) % 13 == 5:
            leadline.log(steps_before=len(self.losses))


class WithEvaluation(Loop):
    def before_step(self) -> None:
        if len(self.losses) % 11 == 10:
            self.model.eval()
            with torch.no_grad():
                self.criterion(self.model(self.data.tensors[0]), self.data.tensors[1])
            self.model.train()


class WithFailedUpdates(Loop):
    def update(self) -> None:
        if len(self.losses) % 17 == 16:
            with pytest.raises(ZeroDivisionError):
                self.optimizer.step(lambda: 1 / 0)
        self.optimizer.step()


class WithClipping(Loop):
    def before_step(self) -> None:
        self.model.train()

    def update(self) -> None:
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.2)
        self.optimizer.step()


class WithSecondOptimizer(Loop):
    def __init__(self) -> None:
        super().__init__()
        self.second = torch.optim.SGD(self.model[0].parameters(), lr=0.01)

    def update(self) -> None:
        self.optimizer.step()
        if len(self.losses) % 9 == 0:
            self.second.step()


class WithInfiniteLoss(Loop):
    def before_step(self) -> None:
        if len(self.losses) == 40:
            with torch.no_grad():
                self.model[0].weight.fill_(float("inf"))


@pytest.fixture
def deferred_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps whose end was handled later."""
    steps: list[int] = []
    handle = StepRecorder.after_loss_only_update

    def noted(recorder: StepRecorder, optimizer: Any) -> None:
        steps.append(recorder.clock.train_step)
        handle(recorder, optimizer)

    monkeypatch.setattr(StepRecorder, "after_loss_only_update", noted)
    return steps


def test_all_steps_between_two_captures_are_deferred(tmp_path: Path, deferred_steps: list[int]) -> None:
    """Of the last step before a capture the end is handled at once, the rest of it later."""
    begun: list[int] = []
    begin = StepTimeline.begin_update

    def noted(timeline: StepTimeline) -> None:
        if timeline.is_in_past:
            begun.append(len(loop.losses))
        begin(timeline)

    loop = Loop()
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(StepTimeline, "begin_update", noted)
        watch(tmp_path, loop, "losses:every=1", "weights:every=10,statistics=l2")
    between = [step for step in range(31, 39) if step in deferred_steps]
    assert len(between) >= 6
    assert 39 not in deferred_steps  # what observes the next step must be there when it begins
    assert 40 in begun  # the calls of step 39 were made at its end, when 40 losses were computed


def recorded(run: Run) -> dict[str, Any]:
    """Return what a run recorded, without times and what the budget delays."""
    collections = ("losses", "scalars", "gradient_norms")
    values = {
        mode: {name: of_name for one in collections for name, of_name in scalars(run, one, mode).items()}
        for mode in ("train", "eval")
    }
    phases = [(row["name"], row["phase"], row["step"]) for row in run.timeline().to_pylist()]
    return {**values, "phases": sorted(phases)}


@pytest.mark.parametrize(
    "kind", [Loop, WithLog, WithEvaluation, WithFailedUpdates, WithClipping, WithSecondOptimizer, WithInfiniteLoss]
)
def test_the_record_is_the_same(
    tmp_path: Path, kind: Callable[[], Loop], deferred_steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = kind()
    deferred = watch(tmp_path / "deferred", loop, preset="light")
    assert len(deferred_steps) > STEPS / 3

    clipped = recorded(deferred)["train"].get("gradient_clipped", {})
    assert len(clipped) == (STEPS if kind is WithClipping else 0)
    assert recorded(deferred)["train"][LOSS] == pytest.approx(dict(enumerate(loop.losses)), nan_ok=True)
    monkeypatch.setattr(DeferredCalls, "allow", lambda deferred, steps: None)
    at_once = watch(tmp_path / "at_once", kind(), preset="light")
    assert str(recorded(deferred)) == str(recorded(at_once))  # as text, NaN equals itself


def test_phases_have_the_times_of_the_training(tmp_path: Path, deferred_steps: list[int]) -> None:
    loop = Loop()
    updates: list[tuple[int, int]] = []

    def sleep_before_step() -> None:
        time.sleep(0.002)

    def update() -> None:
        begun_ns = time.time_ns()
        loop.optimizer.step()
        updates.append((begun_ns, time.time_ns()))

    loop.before_step, loop.update = sleep_before_step, update  # type: ignore[method-assign]
    loop.model.register_forward_pre_hook(lambda module, args: time.sleep(0.001))
    run = watch(tmp_path, loop, preset="light")
    assert len(deferred_steps) > STEPS / 2
    phases = {name: [row for row in run.timeline().to_pylist() if row["name"] == name] for name in (STEP, *STEP_PHASES)}
    for rows in phases.values():
        assert [row["step"] for row in rows if row["phase"] == "train"] == list(range(STEPS))
    durations = {name: [row["duration_ns"] for row in rows] for name, rows in phases.items()}
    assert min(durations["host"]) >= 2_000_000
    assert min(durations["forward"]) >= 1_000_000
    for step, whole in enumerate(durations[STEP]):
        assert sum(durations[phase][step] for phase in STEP_PHASES) <= whole
    for row, (begun_ns, ended_ns) in zip(phases[STEP], updates, strict=True):
        assert begun_ns - 1_000_000 < row["start_ns"] + row["duration_ns"] < ended_ns + 1_000_000


def test_steps_before_a_pause_are_written(tmp_path: Path, deferred_steps: list[int]) -> None:
    loop = Loop()

    def wait_at_the_end() -> None:
        if len(loop.losses) == STEPS - 5:
            leadline.open_run(str(tmp_path / "run")).wait_for_step(STEPS - 6, PATIENCE_SECONDS)

    loop.before_step = wait_at_the_end  # type: ignore[method-assign]
    watch(tmp_path, loop, preset="light")
    assert {STEPS - 8, STEPS - 7, STEPS - 6} & set(deferred_steps)


def test_a_failure_of_ours_ends_capture_and_not_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(recorder: StepRecorder, optimizer: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(StepRecorder, "after_loss_only_update", fail)
    loop = Loop()
    hook = leadline.torch.Hook(out=str(tmp_path), name="run", preset="light")
    session = hook.session
    loop()
    hook.close()
    assert len(loop.losses) == STEPS
    assert session is not None
    assert "a defect" in str(session.guard.failure)
