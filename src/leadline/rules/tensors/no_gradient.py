"""The rule no_gradient."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby, takewhile
from typing import Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.formatting import counted
from leadline.records.names import CUT_OFF_ADAPTERS, layers_of, path_of
from leadline.rules import (
    Advice,
    Clear,
    Fired,
    Needs,
    Rule,
    Severity,
    TensorNeed,
    Undecided,
    Verdict,
    Window,
)
from leadline.rules.losses.converged import LossLevels
from leadline.rules.losses.guess import is_loss_call
from leadline.rules.messages import clear_if_complete, fired, suspected
from leadline.rules.streak import Streak
from leadline.rules.tensors import idle_adapters
from leadline.rules.tensors.gradient_readings import (
    all_readings,
    has_lesson_in,
    is_at_rest,
    is_of_optimizer,
    losses_of,
)
from leadline.rules.tensors.idle_adapters import IdleAdapters
from leadline.rules.tensors.idle_steps import IdleSteps

_GRADIENT: Final = "gradient/"
_NORM: Final = "gradient_norm"
_UNMANAGED: Final = "/outside_optimizers"
_UNMANAGED_EVERY: Final = 10
_LAYER_STEPS: Final = 10
"""Steps that a part of the layers must be without a gradient: the few units of a small layer may rest for a while."""
_LAYER_CAPTURES: Final = 10
"""Captures in a row, for layers that had a gradient before."""
_ADVICE: Final = {
    "layers": Advice(
        "looking between these layers and the next for {cuts} or an operation without a gradient (argmax, round, "
        "sign), and dead_relu on them; usually the graph is cut there, or the units are dead"
    ),
    "loss": Advice(
        "checking that the loss depends on the output (a softmax over one unit is always 1, an empty mask selects "
        "nothing); usually output and loss do not fit each other"
    ),
    "all": Advice(
        "looking between the model's output and the loss for {cuts_of_values}, an operation without a gradient "
        "(argmax, round, sign) or a mask that selects nothing; usually the graph is cut there, all weights are 0 (a "
        "checkpoint that was not read), the last activation is saturated, or the optimizer holds parameters of another "
        "model"
    ),
}
"""What to try, by the kind of the break."""


@dataclass(slots=True)
class _Known:
    """The gradients and losses of a run so far."""

    parameters: dict[str, Streak] = field(default_factory=dict)
    """The parameters without a gradient at their latest capture."""
    held: dict[str, tuple[str, int]] = field(default_factory=dict)
    """All parameters that an optimizer updates, with their worker and their place in its capture."""
    missing: set[str] = field(default_factory=set)
    """The parameters without a gradient that have not even one of zeros."""
    norms: dict[str, Streak] = field(default_factory=dict)
    """The norms that are exactly 0."""
    rests: dict[str, int] = field(default_factory=dict)
    """The most captures in a row without a gradient after which a parameter, or norm, had one again."""
    zero_losses: Streak | None = None
    """The steps since the first one, as long as every loss is exactly 0."""
    is_of_known_loss: bool = False
    """Whether one of these losses is that of a loss call, which is 0 for perfect predictions alone."""
    has_trained: bool = False
    """Whether there was a gradient, or a loss other than 0."""
    had_gradient: set[str] = field(default_factory=set)
    """The parameters and norms that had a gradient."""
    levels: LossLevels = field(default_factory=LossLevels)
    has_unmanaged: bool = False
    """Whether a parameter that no optimizer holds has a gradient."""
    idle: IdleSteps = field(default_factory=IdleSteps)


@dataclass(frozen=True, slots=True)
class _Break:
    """Parameters without a gradient."""

    kind: str
    """``loss``, ``all`` or ``layers``."""
    names: tuple[str, ...]
    since: int
    message: str


class NoGradient(Rule, frozen=True, kw_only=True):
    """Fires when the loss passes no gradient back to an optimizer, or to a layer and all layers before it.

    Why it matters:
        Parameters without a gradient do not train. Nothing fails: the loop runs, and the loss stays where it is or
        falls a little because of the layers that still have a gradient.
    How it decides:
        Fires if one of these conditions holds at ``patience`` captures in a row (after a gradient, at twice as many,
        and at twice as many as in the longest pause that ended): the norm of all gradients of an optimizer is exactly
        0; every parameter of an optimizer has a gradient of exactly 0, or none at all; the same holds for the first
        layers of the model, up to some layer, for at least 10 steps (at 10 captures in a row, if they had a gradient
        before); every loss of a loss call (cross entropy, mean squared error ...) is exactly 0, from the first step on,
        and no gradient is known. A parameter without a gradient counts only if the step of the optimizer did not change
        it. Steps at which every learning rate is 0 do not count, and neither do gradients of 0 at a step at which the
        script's own expression of a loss is exactly 0, too: it has a factor of 0 (the advantage of a policy whose
        episodes all had the same reward), and there was nothing to learn from. It is undecided where an optimizer has
        no gradient, but a parameter that no optimizer holds has one (see ``no_learning``), where an expression has been
        0 at every step so far, and clear where the gradients ended because the loss has fallen to less than a
        thousandth of its largest value. It remarks that the script's own expression of a loss and every gradient norm
        were exactly 0 at 75 % or more of the captured steps, at least 10 of them. It fires at the first step if an
        optimizer holds low-rank adapters (``lora_`` in the names of parameters), and no gradient reaches one of them,
        though it reaches other parameters.
    Not a number:
        A gradient of NaN is a gradient. Steps that a gradient scaler skipped are not evaluated.
    Blind spots:
        A layer is what has the same path in the names of parameters (``block.0``, ``layers/0``, ``net0_dense0``), in
        the order in which the model registers them; without paths it is undecided if only some parameters have a
        gradient. A single layer behind others is reported by
        ``unused_parameter``. Query and key of an attention over one element have a gradient of 0 by design, and count
        if they are the first layers. Layers are captured at some steps only: what is said of them holds at these.
    Args:
        patience: Captures in a row, >= 2.
    Source:
        Ours.
    """

    severity: ClassVar[Severity] = "fatal"
    explains: ClassVar[tuple[str, ...]] = (
        "all_zero",
        "vanishing_gradient",
        "weight_update_ratio",
        "unchanged_tensor",
        "unused_parameter",
        "learning_rate",
        "no_learning",
        "poor_weight_initialization",
        "loss_at_start",
        "diverging_loss",
        "loss_not_decreasing",
        "metric_not_improving",
    )

    patience: Annotated[int, msgspec.Meta(ge=2)] = 3

    def needs(self) -> Needs:
        return Needs(
            (
                TensorNeed("weights", statistics=("update_ratio",), modes=("train",)),
                TensorNeed("biases", statistics=("update_ratio",), modes=("train",), is_optional=True),
                TensorNeed("gradients", statistics=("abs_max",), modes=("train",), is_optional=True),
                TensorNeed("gradient_norms", statistics=("value",), modes=("train",), is_optional=True),
                TensorNeed("losses", statistics=("value",), modes=("train",), is_optional=True),
                TensorNeed(
                    "checks",
                    regex=f"{_UNMANAGED}$",
                    statistics=("value",),
                    modes=("train",),
                    every=_UNMANAGED_EVERY,
                    is_optional=True,
                ),
                TensorNeed(
                    "hyperparameters",
                    regex=r"(^|/)(lr|learning_rate)$",
                    statistics=("value",),
                    modes=("train",),
                    is_optional=True,
                ),
                idle_adapters.need(CUT_OFF_ADAPTERS),
            )
        )

    @property
    def least_observations(self) -> int:
        return self.patience

    def remember(self, memory: Any, window: Window) -> _Known:
        known: _Known = memory or _Known()
        if not window.is_skipped:
            _note_losses(known, window)
            known.has_unmanaged |= any(
                reading.value for reading in window.readings("value") if reading.tensor.endswith(_UNMANAGED)
            )
            if not is_at_rest(window):
                has_lesson = has_lesson_in(window)
                _note_parameters(known, window, has_lesson=has_lesson)
                _note_norms(known, window, has_lesson=has_lesson)
        return known

    def evaluate(self, window: Window) -> Verdict:
        if window.is_skipped:
            return Undecided("a gradient scaler skipped the step")
        known: _Known = window.memory
        for adapters in IdleAdapters.find(window, CUT_OFF_ADAPTERS):
            return adapters.fired()
        if not any(is_of_optimizer(reading) for reading in all_readings(window)) and known.held:
            return Undecided("no gradients were captured at this step")
        broken = self._loss(known) or self._norm(known) or self._parameters(known, window.step)
        if broken is not None and broken.kind == "all" and known.has_unmanaged:
            return Undecided("parameters that no optimizer holds have a gradient, see no_learning")
        if broken is not None and not self._has_converged(known, broken):
            return _fired(broken)
        if not known.held:
            return Undecided("no parameters of an optimizer were captured")
        if known.zero_losses is not None and not known.has_trained:
            why = f"{known.levels.names[0]} is exactly 0 {known.zero_losses.steps}: there was nothing to learn from"
            return Undecided(why, known.idle.product(), stage="suspected")
        streak = self._streak(known)
        if broken is None and streak:
            return suspected(streak, self.patience)
        if any(self._is_dead(known, name) for name in known.held) and not any(layers_of(known.held).values()):
            return Undecided("some parameters have no gradient, and the names of parameters tell no layers")
        verdict = clear_if_complete(window, "gradients")
        return Clear(known.idle.product()) if isinstance(verdict, Clear) else verdict

    def _loss(self, known: _Known) -> _Break | None:
        streak = known.zero_losses
        if streak is None or streak.captures < self.patience or known.has_trained or not known.is_of_known_loss:
            return None
        names = known.levels.names
        rest = ", and no parameter has a gradient" if known.parameters else ""
        return _Break("loss", names, streak.since, f"{names[0]} is exactly 0 {streak.steps}{rest}")

    def _norm(self, known: _Known) -> _Break | None:
        for name, streak in known.norms.items():
            if streak.captures >= self._needed(known, name):
                label = name.removesuffix(_NORM).rstrip("/")
                subject = f"every gradient of {label}" if label else "every gradient"
                return _Break("all", (name,), streak.since, f"{subject} is exactly 0 {streak.steps}")
        return None

    def _parameters(self, known: _Known, step: int) -> _Break | None:
        layers = _layers(known)
        names = [name for layer in layers for name in layer]
        if names and all(self._is_dead(known, name) for name in names):
            count = counted(len(names), "parameter")
            what = (
                f"none of {count} has a gradient"
                if known.missing.issuperset(names)
                else (f"every gradient of {count} is exactly 0")
            )
            streak = _shortest(known, names)
            return _Break("all", tuple(names), streak.since, f"{what} {streak.steps}")
        return self._first_layers(known, layers, step)

    def _first_layers(self, known: _Known, layers: list[list[str]], step: int) -> _Break | None:
        """Return the first layers without a gradient; None: the first one has it, or none was captured."""
        dead = list(takewhile(lambda layer: self._are_off(known, layer, step), layers))
        names = [name for layer in dead for name in layer]
        if not names:
            return None
        streak = _shortest(known, names)
        last, following = _layer_name(dead[-1]), _layer_name(layers[len(dead)])
        more = len(dead) - 1
        before = f" and the {counted(more, 'layer')} before it" if more else ""
        what = "no gradient" if known.missing.issuperset(names) else "a gradient of exactly 0"
        verb = "have" if more else "has"
        message = f"layer {last}{before} {verb} {what} {streak.steps}; layer {following} is the first with one"
        return _Break("layers", tuple(names), streak.since, message)

    def _is_dead(self, known: _Known, name: str) -> bool:
        return name in known.parameters and known.parameters[name].captures >= self._needed(known, name)

    def _needed(self, known: _Known, name: str) -> int:
        """Return the captures in a row that count: more for what had a gradient and may rest, as it has before."""
        return 2 * max(self.patience, known.rests.get(name, 0)) if name in known.had_gradient else self.patience

    def _are_off(self, known: _Known, layer: list[str], step: int) -> bool:
        """Return whether a layer has no gradient while others may have one."""
        if not all(self._is_dead(known, name) for name in layer):
            return False
        streaks = [known.parameters[name] for name in layer]
        if not known.had_gradient.isdisjoint(layer):
            return all(streak.captures >= _LAYER_CAPTURES for streak in streaks)
        return all(step - streak.since >= _LAYER_STEPS for streak in streaks)

    def _has_converged(self, known: _Known, broken: _Break) -> bool:
        return known.levels.have_converged() and not known.had_gradient.isdisjoint(broken.names)

    def _streak(self, known: _Known) -> int:
        """Return how many captures in a row point to a finding."""
        counts = [streak.captures for streak in known.norms.values()]
        first = _layers(known)[:1]
        if first and all(name in known.parameters for name in first[0]):
            counts.append(min(known.parameters[name].captures for name in first[0]))
        return min(max(counts, default=0), self.patience - 1)


def _fired(broken: _Break) -> Fired:
    return fired(
        broken.message,
        *broken.names,
        advice=_ADVICE[broken.kind],
        evidence={"kind": broken.kind, "since_step": broken.since, "parameters": len(broken.names)},
        since_step=broken.since,
    )


def _note_losses(known: _Known, window: Window) -> None:
    losses = losses_of(window)
    known.levels.add(losses)
    known.has_trained |= any(reading.value != 0.0 for reading in losses)
    if losses and not known.has_trained:
        known.is_of_known_loss |= any(is_loss_call(reading.tensor) for reading in losses)
        if known.zero_losses is None:
            known.zero_losses = Streak.begin(losses[0].mode_step)
        else:
            known.zero_losses.extend(losses[0].mode_step)


def _note_parameters(known: _Known, window: Window, *, has_lesson: bool) -> None:
    """Note which parameters have a gradient; one that has it in some worker or optimizer has one."""
    gradients: dict[str, bool] = {}
    for reading in window.readings("abs_max"):
        name = reading.tensor.removeprefix(_GRADIENT)
        gradients[name] = gradients.get(name, False) or reading.value != 0.0
    changes: dict[str, bool] = {}
    for reading in window.readings("update_ratio"):
        known.held.setdefault(reading.tensor, (reading.worker, reading.order))
        changes[reading.tensor] = changes.get(reading.tensor, False) or reading.value != 0.0
    for name in (*changes, *(name for name in gradients if name not in changes)):
        has_gradient = gradients.get(name)
        if has_gradient is None and changes.get(name):
            continue  # it changes, so its gradient was captured at other steps
        if has_gradient:
            _note_gradient(known, known.parameters, name)
        elif has_lesson or has_gradient is None:
            _extend(known.parameters, name, window.step)
        (known.missing.add if has_gradient is None else known.missing.discard)(name)


def _note_norms(known: _Known, window: Window, *, has_lesson: bool) -> None:
    norms: dict[str, bool] = {}
    for reading in window.readings("value"):
        if "gradient_norms" in reading.collections and reading.tensor.endswith(_NORM):
            norms[reading.tensor] = norms.get(reading.tensor, False) or reading.value != 0.0
    if norms and losses_of(window):
        known.idle.add(is_idle=not has_lesson and not any(norms.values()))
    for name, is_nonzero in norms.items():
        if is_nonzero:
            _note_gradient(known, known.norms, name)
        elif has_lesson:
            _extend(known.norms, name, window.step)


def _note_gradient(known: _Known, streaks: dict[str, Streak], name: str) -> None:
    """Note that a parameter, or norm, has a gradient; a pause before it is one that may come again."""
    pause = streaks.pop(name, None)
    if pause is not None and name in known.had_gradient:
        known.rests[name] = max(pause.captures, known.rests.get(name, 0))
    known.has_trained = True
    known.had_gradient.add(name)


def _extend(streaks: dict[str, Streak], name: str, step: int) -> None:
    if name in streaks:
        streaks[name].extend(step)
    else:
        streaks[name] = Streak.begin(step)


def _shortest(known: _Known, names: list[str]) -> Streak:
    """Return the captures at which none of the parameters had a gradient."""
    return min((known.parameters[name] for name in names), key=lambda streak: streak.captures)


def _layers(known: _Known) -> list[list[str]]:
    """Return the names of the parameters by layer, in the order of the model."""
    names = sorted(known.held, key=lambda name: known.held[name])
    return [list(group) for _, group in groupby(names, key=layers_of(names).__getitem__)]


def _layer_name(names: list[str]) -> str:
    return path_of(names[0]) or names[0]
