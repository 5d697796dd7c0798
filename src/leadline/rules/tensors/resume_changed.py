"""The rule resume_changed."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, ClassVar, Final

from leadline.records.formatting import listed, significant
from leadline.records.names import (
    CHECKS,
    FIRST_STATE,
    LOADED_STATE,
    MOMENT_NORM,
    NEW_STATE,
    POSSIBLE_CAUSES,
    RESUMED,
    STARTED_OVER,
)
from leadline.rules import (
    Advice,
    Clear,
    Needs,
    NotApplicable,
    Rule,
    TensorNeed,
    TensorReading,
    Undecided,
    Verdict,
    Window,
)
from leadline.rules.bounds import Factor
from leadline.rules.messages import fired
from leadline.rules.tensors.model_batches import ALL_INPUTS, inputs_by_model

_LOSSES: Final = 5
"""The median of so many losses on each side counts."""
_RATES: Final = r"(^|/)(lr|learning_rate|eta)$"
_SCALES: Final = r"(^|/)scale$"
_SCALE_RATIO: Final = 4.0
"""A gradient scaler halves or doubles its scale by itself."""
_EQUAL: Final = 1e-6
_MAX_LOGARITHM: Final = 50.0
_MOMENT_RATIO: Final = 100.0
"""Moments grow and shrink with the gradients; by so much within 50 steps they rarely do."""
_LEFT: Final = 0.5
"""The share of a loaded norm that must be left: nothing but a conversion of its numbers changes it."""
_LEAST_STEPS: Final = 10
"""A state of fewer steps is hardly worth loading."""
_FIRST_STEPS: Final = 6
"""At these steps the batches are fingerprinted, and at the first one of each process."""
_EVERY: Final = 50
_CHECKED_EVERY: Final = 10
_STATES: Final = f"/({LOADED_STATE}/|{FIRST_STATE}/|{STARTED_OVER}$)"
_ADVICE: Final = Advice(
    "loading the state of the optimizer, of the schedule and of the gradient scaler from the checkpoint, each after it "
    "was made, as the weights are; usually only the weights were saved, or an object was made again after loading"
)


@dataclass(slots=True)
class _Worker:
    """What one worker had before it was resumed, and has since."""

    first: dict[str, float] = field(default_factory=dict)
    """The first learning rates, scales and norms of moments."""
    values: dict[str, deque[tuple[int, float]]] = field(default_factory=dict)
    """The latest two of each, with their steps."""
    losses: dict[str, deque[float]] = field(default_factory=dict)
    batches: dict[str, dict[int, bytes]] = field(default_factory=dict)
    """The first batches, over all inputs of a model, by the first of them and step."""
    resumed_step: int | None = None
    parts: list[str] = field(default_factory=list)
    """What was not restored, as text."""
    decided_step: int | None = None
    """The step since which the losses are known, too."""
    before: dict[str, list[float]] = field(default_factory=dict)
    """The losses before."""
    optimizers: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    """Those that went on from a loaded state: the first step at which that was captured, and what was lost, as text."""
    repeated: tuple[int, int] | None = None
    """The step at which a batch came again, and its first step."""


class ResumeChanged(Rule, frozen=True, kw_only=True):
    """Fires when a training goes on with another learning rate, optimizer state, loss scale or loss than it had.

    Why it matters:
        A checkpoint often has the weights alone: Adam begins with moments of 0, the schedule with its warm-up, the
        gradient scaler with its first scale. The loss rises and is learned again, or the rest of the run has a rate
        that was meant for its start.
    How it decides:
        At the fifth loss of a process that [continues a run](../../how-to/resume.md), it compares with what had been
        captured before: fires if the optimizer had counted no step though the run has some; if a learning rate is at
        least ``ratio`` times the last one captured, and what that would be by now if it went on to change as between
        the last two captures, or if it is the first one of the run again and differs from the last by ``ratio``; if the
        norm of an optimizer's moments is a hundredth of the last one captured, or less, and of what that would be by
        now; if the scale of a gradient scaler is its first one again and differs from the last by a factor of 4; or if
        the median of five losses is ``ratio`` times that of the five before, and above all of them. Names each of
        these. It remarks at the end that the first batch of the process was one of the first six of the run, sample by
        sample: the data started over, which is as it should be at the start of an epoch that is not shuffled.

        Where a process loads the state of an optimizer before its first step, in a run of its own, that state is
        compared with the one at that step: fires if it counts fewer steps, or less than half of the norm of its moments
        is left, or if a schedule that counts no step has made the learning rate ``ratio`` times as high or as low, from
        the same initial rate, unless the loaded rate was below 5 % of that and its schedule may have been over. States
        of fewer than 10 steps are left out. Does not apply where neither is the case.
    Not a number:
        Values that are NaN or infinite are left out.
    Blind spots:
        A rate that differs by less, as where the schedule is nearly constant, or that is lower and not the first one.
        Moments beyond those of 16 parameters or 262,144 elements, and sharded ones. Steps that are repeated are
        compared with those before them, not with their first values, which are replaced. Of a process that loads a
        checkpoint and records a run of its own, losses, scalers and data are not compared; one that loads no state of
        an optimizer is a matter of ``lost_progress``. Losses and rates of frameworks other than PyTorch are compared,
        their scalers and moments not.
    Args:
        ratio: The factor between learning rates, or losses, that is too much, > 1.
    Source:
        Ours.
    """

    explains: ClassVar[tuple[str, ...]] = ("loss_spike", "diverging_loss", "loss_not_decreasing", "learning_rate")

    ratio: Factor = 2.0

    def needs(self) -> Needs:
        losses = TensorNeed("losses", statistics=("value",), modes=("train",))
        inputs = TensorNeed("inputs", regex=ALL_INPUTS, statistics=("fingerprints",), modes=("train",))
        return Needs(
            (
                losses,
                replace(losses, collection=CHECKS, regex=f"^({RESUMED}|{NEW_STATE})$", is_optional=True),
                replace(losses, collection=CHECKS, regex=f"/{MOMENT_NORM}$", every=_EVERY, is_optional=True),
                replace(losses, collection=CHECKS, regex=_STATES, every=_CHECKED_EVERY, is_optional=True),
                replace(losses, collection="hyperparameters", regex=f"{_RATES}|{_SCALES}", is_optional=True),
                replace(inputs, end=_FIRST_STEPS, is_optional=True),
                replace(inputs, every=_EVERY, is_optional=True),
            )
        )

    def remember(self, memory: Any, window: Window) -> dict[str, _Worker]:
        workers: dict[str, _Worker] = memory or {}
        readings = window.readings("value")
        for reading in readings:
            if reading.tensor == RESUMED:
                self._resume(workers.setdefault(reading.worker, _Worker()), window.step)
        for reading in readings:
            self._note(workers.setdefault(reading.worker, _Worker()), reading, window.step)
        for (name, optimizer), state in _states(readings).items():
            worker = workers[name]
            lost = [] if worker.resumed_step == window.step else list(self._lost(state))
            worker.optimizers.setdefault(optimizer, (window.step, lost))
        for worker in workers.values():
            if worker.resumed_step is not None and worker.decided_step is None:
                names = [name for name, losses in worker.losses.items() if len(losses) == _LOSSES]
                if names:
                    worker.parts.extend(self._of_losses(worker, names))
                    worker.decided_step = window.step
        for (name, first), inputs in inputs_by_model(window.vectors("fingerprints")).items():
            worker = workers.setdefault(name, _Worker())
            batch = b"".join(vector.values.tobytes() for vector in inputs)
            if window.step < _FIRST_STEPS and worker.resumed_step is None:
                worker.batches.setdefault(first, {})[window.step] = batch
            elif worker.resumed_step == window.step:
                self._compare_batch(worker, first, batch, window.step)
        return workers

    def _resume(self, worker: _Worker, step: int) -> None:
        worker.resumed_step, worker.decided_step, worker.parts, worker.repeated = step, None, [], None
        worker.before = {name: list(losses) for name, losses in worker.losses.items()}
        worker.losses.clear()

    def _note(self, worker: _Worker, reading: TensorReading, step: int) -> None:
        if CHECKS in reading.collections and not reading.tensor.endswith(MOMENT_NORM):
            if reading.tensor == NEW_STATE and reading.value == 1.0:
                worker.parts.append("the optimizer had counted no step")
        elif not math.isfinite(reading.value):
            return
        elif "losses" in reading.collections:
            worker.losses.setdefault(reading.tensor, deque(maxlen=_LOSSES)).append(reading.value)
        else:
            first = worker.first.setdefault(reading.tensor, reading.value)
            known = worker.values.setdefault(reading.tensor, deque(maxlen=2))
            if known and worker.resumed_step == step and self._is_changed(reading, step, first, list(known)):
                before, value = known[-1]
                name, now = reading.tensor.removesuffix(f"/{MOMENT_NORM}"), significant(reading.value)
                said = f"the norm of {name}" if name != reading.tensor else name
                worker.parts.append(f"{said} is {now} (at step {before:,} it was {significant(value)})")
            known.append((step, reading.value))

    def _is_changed(self, reading: TensorReading, step: int, first: float, known: list[tuple[int, float]]) -> bool:
        """Return whether a value is that of the start again, a rate higher or moments smaller than they would be.

        Args:
            first: The first one of the run.
            known: The latest ones before, with their steps.
        """
        if reading.tensor.endswith(MOMENT_NORM):
            return _MOMENT_RATIO * reading.value <= min(known[-1][1], _continued(step, known)) > 0
        ratio = _SCALE_RATIO if reading.tensor.endswith("scale") else self.ratio
        before = known[-1][1]
        low, high = sorted((before, reading.value))
        if not high >= ratio * low > 0 or high == low:
            return False
        if math.isclose(reading.value, first, rel_tol=_EQUAL):
            return True
        return ratio == self.ratio and reading.value >= ratio * max(before, _continued(step, known))

    def _compare_batch(self, worker: _Worker, name: str, batch: bytes, step: int) -> None:
        first = worker.batches.get(name, {})
        if 1 < len(first) == len(set(first.values())):
            earlier = next((at for at, known in first.items() if known == batch), None)
            worker.repeated = None if earlier is None else (step, earlier)

    def evaluate(self, window: Window) -> Verdict:
        workers: dict[str, _Worker] = window.memory
        for name, worker in workers.items():
            for optimizer, (step, parts) in worker.optimizers.items():
                if step == window.step and parts:
                    return self._of_loaded(name, optimizer, parts)
        if all(worker.resumed_step is None for worker in workers.values()):
            has_loaded = any(worker.optimizers for worker in workers.values())
            return Clear() if has_loaded else NotApplicable("the run was not resumed, and no optimizer's state loaded")
        resumed = {name: worker for name, worker in workers.items() if worker.resumed_step is not None}
        for name, worker in resumed.items():
            if worker.decided_step == window.step and worker.parts:
                parts = list(dict.fromkeys(worker.parts))
                return fired(
                    f"resumed at step {worker.resumed_step:,}, and not as it was: {listed(parts)}",
                    advice=_ADVICE,
                    evidence={"resumed_step": worker.resumed_step, "changes": parts},
                    worker=name,
                    since_step=worker.resumed_step,
                )
        if any(worker.decided_step is None for worker in resumed.values()):
            return Undecided(f"fewer than {_LOSSES} losses since it was resumed")
        repeated = [worker.repeated for worker in workers.values() if worker.repeated is not None]
        remarks = [_remark(*repeated[0])] if repeated else []
        return Clear({"remarks": remarks, POSSIBLE_CAUSES: remarks} if remarks else {})

    def _lost(self, state: dict[str, float]) -> Iterator[str]:
        """Yield what an optimizer had no more at its first step of the state that was loaded into it.

        Args:
            state: The checks by name, without that of the optimizer.
        """
        (rate, steps, norm), (rate_now, steps_now, norm_now) = (
            [state.get(f"{prefix}/{part}", math.nan) for part in ("lr", "steps", "norm")]
            for prefix in (LOADED_STATE, FIRST_STATE)
        )
        if steps < _LEAST_STEPS:
            return
        if steps_now < steps or (math.isnan(steps_now) and not math.isnan(steps)):
            yield f"it counts {0 if math.isnan(steps_now) else int(steps_now):,} steps in place of {int(steps):,}"
        if norm_now < _LEFT * norm:
            yield f"the norm of its moments is {significant(norm_now)} in place of {significant(norm)}"
        low, high = sorted((rate, rate_now))
        if state.get(STARTED_OVER) == 1.0 and high >= self.ratio * low > 0:
            yield (
                f"its learning rate is {significant(rate_now)} in place of {significant(rate)}, and its schedule "
                "counts no step"
            )

    def _of_loaded(self, worker: str, optimizer: str, parts: list[str]) -> Verdict:
        return fired(
            f"the state of {optimizer} was loaded, and its first step found another one: {listed(parts)}",
            advice=_ADVICE,
            evidence={"optimizer": optimizer, "changes": parts},
            worker=worker,
        )

    def _of_losses(self, worker: _Worker, names: list[str]) -> Iterator[str]:
        """Yield the losses that are higher than those before."""
        for name in names:
            before = worker.before.get(name, [])
            now = median(worker.losses[name])
            if len(before) == _LOSSES and now > max(before) and now >= self.ratio * median(before) > 0:
                yield f"{name} is {significant(now)} (before, {significant(median(before))})"


def _states(readings: list[TensorReading]) -> dict[tuple[str, str], dict[str, float]]:
    """Return the checks on loaded states by worker and optimizer."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for reading in readings:
        optimizer, separator, name = reading.tensor.partition("/")
        if separator and re.search(_STATES, reading.tensor):
            found.setdefault((reading.worker, optimizer), {})[name] = reading.value
    return found


def _continued(step: int, known: list[tuple[int, float]]) -> float:
    """Return a value at a step, as two before it go on by the same factor in each step."""
    if len(known) == 1 or min(value for _, value in known) <= 0:
        return known[-1][1]
    (start, first), (end, last) = known
    return last * math.exp(min(math.log(last / first) * (step - end) / (end - start), _MAX_LOGARITHM))


def _remark(step: int, earlier: int) -> str:
    return (
        f"the first batch of the process that was resumed at step {step:,} was that of step {earlier:,}: the data "
        "started over, which is as it should be only where an epoch begins there"
    )
