"""The rule no_learning."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from leadline.records.names import FROZEN_BY_OPTIMIZER, gradient_name
from leadline.rules import Advice, Fired, Needs, Rule, Severity, TensorNeed, TensorReading, Undecided, Verdict, Window
from leadline.rules.bounds import PositiveInt
from leadline.rules.losses.converged import LossLevels
from leadline.rules.messages import and_more, clear_if_complete, fired, suspected, too_few
from leadline.rules.streak import Streak
from leadline.rules.tensors import idle_adapters
from leadline.rules.tensors.idle_adapters import UPDATED_BY_NOTHING, IdleAdapters

_UNMANAGED: Final = "/outside_optimizers"
_FROZEN: Final = "/frozen_parameters"
_LEFT_ALONE: Final = f"/{FROZEN_BY_OPTIMIZER}"
_EVERY: Final = 10
_MIN_CAPTURES: Final = 3
"""Captures that must agree: two may be alike by chance, as after a step that was taken back."""
_UNMANAGED_STEPS: Final = 5
"""A parameter without an optimizer is reported after this many steps: an optimizer may be created a little later."""
_NOISE: Final = 1e-5
"""A gradient below this share of the largest one at its step is a rounding error of zero."""
_CONVERGED: Final = 1e-3
"""A gradient or learning rate below this share of its largest so far is one at the end of a training."""
_UNFREEZE: Final = Advice("{unfreeze}; usually the whole model was frozen in place of the part that was trained before")
_END_OF_SCHEDULE: Final = Advice(
    "checking the length and last value of the scheduler, or {schedule_floor}; usually the schedule ends before the "
    "training, as its length counts updates or epochs, and it is stepped once for each batch or device"
)
_WITHOUT_OPTIMIZER: Final = Advice(
    "{parameters_to_optimizer} after the model is complete, or {freeze} for frozen layers; usually a layer was created "
    "or replaced after the optimizer"
)
_LOST_UPDATES: Final = Advice(
    "a ten times higher learning rate, or float32 copies of half precision weights; usually updates are lost to "
    "rounding, its learning rate is 0, or something writes old values back after each step"
)
_LOST_UPDATES_OF_ONE: Final = Advice(
    "a look at the learning rate of its parameter group, and float32 copies if it is of half precision; usually its "
    "updates are lost to rounding, or something writes old values back after each step"
)


@dataclass(frozen=True, slots=True)
class _Unchanged:
    """A parameter whose bits are the same, with a gradient, at captures in a row."""

    streak: Streak
    checksum: float
    rate: float
    """The largest learning rate at that step."""


@dataclass(slots=True)
class _Known:
    """The parameters and learning rates of a worker."""

    unchanged: dict[str, _Unchanged] = field(default_factory=dict)
    unmanaged: dict[str, Streak] = field(default_factory=dict)
    """Parameters with a gradient that no optimizer holds."""
    left_alone: set[str] = field(default_factory=set)
    """Parameters that their optimizer freezes, beside others."""
    frozen: tuple[str, Streak] | None = None
    """The check of a model of which everything is frozen, and the captures of it."""
    rates: dict[str, float] = field(default_factory=dict)
    """The latest learning rates."""
    highest_rate: float = 0.0
    largest_gradients: dict[str, float] = field(default_factory=dict)
    """The largest gradient of each parameter so far."""
    first_step: int | None = None
    """The step at which parameters were first captured."""
    at_rest: Streak | None = None
    """The captures in a row at which every learning rate is 0."""
    levels: LossLevels = field(default_factory=LossLevels)

    def has_converged(self, parameter: str, gradient: float) -> bool:
        """Note a gradient; return whether it, the loss or the learning rate is far below its largest value so far."""
        largest = max(gradient, self.largest_gradients.get(parameter, 0.0))
        self.largest_gradients[parameter] = largest
        is_small = gradient < _CONVERGED * largest or _rate(self) < _CONVERGED * self.highest_rate
        return is_small or self.levels.have_converged()


class NoLearning(Rule, frozen=True, kw_only=True):
    """Fires when nothing updates a parameter: no bit changes, no optimizer has it, all is frozen, or the rate is 0.

    Why it matters:
        The loss may still fall because of the other parameters, so that nobody notices; the layer without updates
        is computed in vain at every step.
    How it decides:
        Fires if a parameter receives gradients and no living optimizer holds it for at least 5 steps; this includes
        parameters of modules that a captured forward pass called although their model does not know them (in a plain
        list), and of models without an optimizer of their own. Fires if a model of Keras has been fitted for at least
        5 batches although none of its parameters is trainable. Fires too if one of these conditions holds for at least
        ``steps`` steps: the gradient of a parameter was above 1e-5 of the largest gradient at each capture, and its
        bits (their checksum) are the same at all of these captures; every learning rate was 0 at each capture. All of
        this must hold at 3 captures at least; at fewer it is undecided. It fires at the first step if the models of an
        optimizer have low-rank adapters (``lora_`` in the names of parameters), and none of them requires a gradient,
        nor any weight of the layers that they adapt, or no optimizer holds one. While the learning rate rises
        (warm-up), an unchanged parameter is not evaluated: the first steps may be too small to change a bit. Smaller
        gradients are rounding errors of zero, such as those of a bias in front of a batch norm, which is unchanged as
        expected. At the end of a training, when the gradient of a parameter, the learning rate or every loss has
        fallen below a thousandth of its largest value, nothing needs to change. A parameter that does not require a
        gradient has none, whatever it has from before it was frozen. A parameter that its optimizer freezes beside
        others may be unchanged: by a learning rate of 0 of its group, by a multiplier of 0, or because its update is
        exactly 0 before it is added (``optax.set_to_zero``). So may one that an earlier optimizer held, which no
        longer exists: a further stage trains a part of the model.
    Not a number:
        A gradient with NaN or infinity should not change anything (a gradient scaler skips such steps): the count
        is reset.
    Blind spots:
        A parameter that is unchanged because its gradient has almost vanished is reported by
        ``vanishing_gradient``. Only captures are compared: a parameter that changes and returns to the same bits
        looks unchanged. A group whose learning rate is 0 by mistake is not reported, if another one has one. A part of
        a model that was loaded, and that no optimizer has held, fires although only the rest is to be trained: freeze
        it by ``requires_grad``. Weights that are clamped to a bound after each step (WGAN) may be unchanged by design.
    Args:
        steps: Number of steps without a change, >= 1.
    Source:
        Ours.
    """

    severity: ClassVar[Severity] = "fatal"
    explains: ClassVar[tuple[str, ...]] = (
        "unchanged_tensor",
        "weight_update_ratio",
        "learning_rate",
        "diverging_loss",
        "loss_not_decreasing",
        "metric_not_improving",
    )

    steps: PositiveInt = 20

    def needs(self) -> Needs:
        return Needs(
            (
                TensorNeed("weights", statistics=("checksum",), modes=("train",)),
                TensorNeed("biases", statistics=("checksum",), modes=("train",), is_optional=True),
                TensorNeed("gradients", statistics=("abs_max",), modes=("train",)),
                TensorNeed(
                    "hyperparameters",
                    regex=r"(^|/)(lr|learning_rate)$",
                    statistics=("value",),
                    modes=("train",),
                    is_optional=True,  # a rate of 0 shows in the weights, too, where the rate is not known
                ),
                TensorNeed(
                    "checks",
                    regex=f"({_UNMANAGED}|{_FROZEN}|{_LEFT_ALONE})$",
                    statistics=("value",),
                    modes=("train",),
                    every=_EVERY,
                    is_optional=True,  # and so does what no optimizer holds
                ),
                TensorNeed("losses", statistics=("value",), modes=("train",), is_optional=True),
                idle_adapters.need(*UPDATED_BY_NOTHING),
            )
        )

    def remember(self, memory: Any, window: Window) -> dict[str, _Known]:
        known: dict[str, _Known] = memory or {}
        rates: dict[str, list[TensorReading]] = {}
        for reading in window.readings("value"):
            of_worker = known.setdefault(reading.worker, _Known())
            if reading.tensor.endswith(_UNMANAGED):
                _note_unmanaged(of_worker, reading)
            elif reading.tensor.endswith(_LEFT_ALONE):
                _note_left_alone(of_worker, reading)
            elif reading.tensor.endswith(_FROZEN):
                of_worker.frozen = of_worker.frozen or (reading.tensor, Streak.begin(reading.mode_step))
                of_worker.frozen[1].extend(reading.mode_step)
            elif "losses" in reading.collections:
                of_worker.levels.add([reading])
            elif "hyperparameters" in reading.collections:
                rates.setdefault(reading.worker, []).append(reading)
        for worker, readings in rates.items():
            _note_rates(known.setdefault(worker, _Known()), readings)
        gradients = {(reading.worker, reading.tensor): reading.value for reading in window.readings("abs_max")}
        largest = _largest(gradients)
        for reading in window.readings("checksum"):
            gradient = gradients.get((reading.worker, gradient_name(reading.tensor)), math.nan)
            of_worker = known.setdefault(reading.worker, _Known())
            has_gradient = _NOISE * largest.get(reading.worker, 0.0) < gradient < math.inf
            has_gradient = has_gradient and not of_worker.has_converged(reading.tensor, gradient)
            _note_checksum(of_worker, reading, has_gradient=has_gradient)
        return known

    def evaluate(self, window: Window) -> Verdict:
        numbers = window.readings("value")
        sums = window.readings("checksum")
        workers: dict[str, list[TensorReading]] = {}
        for reading in (*numbers, *sums):
            workers.setdefault(reading.worker, []).append(reading)
        captures = 0
        for worker, readings in workers.items():
            step = max(reading.mode_step for reading in readings)
            captures = max(captures, self._suspicious_captures(window.memory[worker], step))
            finding = self._judge(window.memory[worker], step, readings)
            if finding is not None:
                return self._fired(*finding, worker=worker)
        for adapters in IdleAdapters.find(window, *UPDATED_BY_NOTHING):
            return adapters.fired()
        if captures:
            return suspected(captures, _MIN_CAPTURES)
        if not sums:
            return Undecided("no weights were captured")
        followed = max(reading.mode_step - window.memory[reading.worker].first_step for reading in sums)
        if followed < self.steps:
            return too_few(followed, self.steps, "steps between captures of the parameters")
        return clear_if_complete(window, "parameters")

    def _judge(
        self, known: _Known, step: int, readings: Iterable[TensorReading]
    ) -> tuple[str, list[str], Streak] | None:
        """Return the kind of finding, its parameters, and the captures that it is about."""
        names = {reading.tensor for reading in readings}
        rest = known.at_rest
        if rest is not None and names & set(known.rates) and _is_long(rest, step, self.steps):
            return "rate", sorted(known.rates), rest
        steps = min(self.steps, _UNMANAGED_STEPS)
        if known.frozen is not None and known.frozen[0] in names and _is_long(known.frozen[1], step, steps):
            return "frozen", [known.frozen[0]], known.frozen[1]
        unmanaged = [name for name, one in known.unmanaged.items() if _is_long(one, step, steps) and name in names]
        if unmanaged:
            return "outside", unmanaged, known.unmanaged[unmanaged[0]]
        followed = [(name, parameter) for name, parameter in known.unchanged.items() if name not in known.left_alone]
        unchanged = [
            name for name, parameter in followed if name in names and self._is_unchanged(known, parameter, step)
        ]
        if unchanged:
            others = (self._is_unchanged(known, parameter, step) for _, parameter in followed)
            return "still" if all(others) else "still_alone", unchanged, known.unchanged[unchanged[0]].streak
        return None

    def _is_unchanged(self, known: _Known, parameter: _Unchanged, step: int) -> bool:
        return _is_long(parameter.streak, step, self.steps) and not _rate(known) > parameter.rate

    def _suspicious_captures(self, known: _Known, step: int) -> int:
        """Return the captures of what has been without an update for long enough, but at too few captures; 0: none."""
        streaks = [one.streak for name, one in known.unchanged.items() if name not in known.left_alone]
        streaks += [known.at_rest] if known.at_rest is not None else []
        few = [one.captures for one in streaks if step - one.since >= self.steps and 1 < one.captures < _MIN_CAPTURES]
        return max(few, default=0)

    def _fired(self, kind: str, names: list[str], streak: Streak, *, worker: str) -> Fired:
        still = f"{names[0]}{and_more(len(names) - 1, 'parameter')}: the same bits {streak.steps}, despite gradients"
        more = and_more(len(names) - 1, "parameter")
        message, suggestion = {
            "frozen": (
                f"{names[0].removesuffix(_FROZEN)}: none of its parameters is trainable, so that no step changes it",
                _UNFREEZE,
            ),
            "rate": (f"every learning rate is 0 {streak.steps}", _END_OF_SCHEDULE),
            "outside": (
                f"{names[0].removesuffix(_UNMANAGED)}{more}: gradients {streak.steps}, but no optimizer holds it",
                _WITHOUT_OPTIMIZER,
            ),
            "still": (still, _LOST_UPDATES),
            "still_alone": (f"{still}, while others change", _LOST_UPDATES_OF_ONE),
        }[kind]
        return fired(
            message,
            *names,
            advice=suggestion,
            evidence={
                "kind": kind.removesuffix("_alone"),
                "since_step": streak.since,
                "captures": streak.captures,
                "parameters": len(names),
                "steps": self.steps,
            },
            worker=worker,
            since_step=streak.since,
        )


def _is_long(streak: Streak, step: int, steps: int) -> bool:
    """Return whether something was seen at enough captures, over so many steps."""
    return step - streak.since >= steps and streak.captures >= _MIN_CAPTURES


def _rate(known: _Known) -> float:
    return max(known.rates.values(), default=math.nan)


def _largest(gradients: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """Return the largest finite gradient of each worker."""
    largest: dict[str, float] = {}
    for (worker, _), value in gradients.items():
        if value < math.inf:
            largest[worker] = max(value, largest.get(worker, 0.0))
    return largest


def _note_unmanaged(known: _Known, reading: TensorReading) -> None:
    if reading.value > 0:
        known.unmanaged.setdefault(reading.tensor, Streak.begin(reading.mode_step)).extend(reading.mode_step)
    else:
        known.unmanaged.pop(reading.tensor, None)


def _note_left_alone(known: _Known, reading: TensorReading) -> None:
    parameter = reading.tensor.removesuffix(_LEFT_ALONE)
    if reading.value:
        known.left_alone.add(parameter)
    elif parameter in known.left_alone:
        known.left_alone.remove(parameter)
        known.unchanged.pop(parameter, None)


def _note_rates(known: _Known, readings: list[TensorReading]) -> None:
    known.rates = {reading.tensor: reading.value for reading in readings}
    known.highest_rate = max(known.highest_rate, _rate(known))
    if any(known.rates.values()):
        known.at_rest = None
    elif known.at_rest is None:
        known.at_rest = Streak.begin(readings[0].mode_step)
    else:
        known.at_rest.extend(readings[0].mode_step)


def _note_checksum(known: _Known, reading: TensorReading, *, has_gradient: bool) -> None:
    known.first_step = reading.mode_step if known.first_step is None else known.first_step
    before = known.unchanged.get(reading.tensor)
    if not has_gradient:
        known.unchanged.pop(reading.tensor, None)
    elif before is None or before.checksum != reading.value or _rate(known) > before.rate:
        known.unchanged[reading.tensor] = _Unchanged(Streak.begin(reading.mode_step), reading.value, _rate(known))
    else:
        before.streak.extend(reading.mode_step)
