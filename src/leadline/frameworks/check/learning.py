"""How the curves of a copy that learns one batch are judged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from leadline.frameworks.check.outcome import Tested, failed, not_applicable, passed
from leadline.records.json_object import JsonObject

STEPS: Final = 100
LEAST_STEPS: Final = 15
RATES: Final = (1e-2, 1e-3, 1e-4)
FEW_RATES: Final = (1e-3,)
"""Those of a model whose steps take long: then only what was learned counts, not what was not."""
SHARE: Final = 0.5
"""Of the time that is left for all probes."""
SEED: Final = 11
UNUSED_LOSS: Final = "the loss does not depend on any trained parameter"
NOT_LEARNED: Final = "the copy has not learned its batch"
NO_LABELS: Final = "the loss has no labels that differ from sample to sample"
GIVEN_INPUT: Final = "the loss is given the input itself"
COMPARED: Final = "the loss compares the samples of the batch with each other"
_STUCK: Final = 0.02
"""A relative decrease of the loss below which nothing was learned."""
_NO_BETTER: Final = 0.97
"""Of the loss of the best constant prediction."""
_LEARNED: Final = 0.5
_STILL: Final = 1e-5
"""A relative change of the loss below which an optimizer does nothing."""
_DIVERGED: Final = 2.0
_EARLY: Final = 100
"""Until this step the loss of a batch can still fall much."""
_USELESS: Final = 0.02
"""Of what was learned, by which exchanged inputs must at least raise the loss."""
_SAME: Final = 2.0
"""Times the loss that was learned, from which on exchanged inputs are of use: where labels hardly differ."""
TRAINED: Final = 100
"""The step from which a result includes what the input is worth to the model itself."""
_SHOWN: Final = 40


class Learned(NamedTuple):
    """What a copy has learned of its one batch.

    Attributes:
        first: The loss before.
        curves: The losses of Adam at three rates, by their names.
        own: Those of the script's own optimizer; empty: it could not make the steps.
        optimizer: The class of that optimizer.
        rate: Its learning rate; 0: it has none, or it is not known.
        steps: How many steps each has made.
        still: The parameters that no gradient reaches.
        parameters: The number of all parameters.
        constant: The loss of the best constant prediction; None: it is not known.
        step: The train step that was copied.
    """

    first: float
    curves: Mapping[str, Sequence[float]]
    own: Sequence[float]
    optimizer: str
    rate: float
    steps: int
    still: Sequence[str]
    parameters: int
    constant: float | None
    step: int


def steps_within(seconds_left: float, seconds: float, rates: Sequence[float] = RATES) -> int:
    """Return how many steps each curve can have, if a step takes so many seconds: those of Adam, and the script's."""
    return min(STEPS, int(SHARE * seconds_left / ((len(rates) + 1) * seconds)))


def too_slow(seconds: float) -> Tested:
    """Return the outcome if a step takes too many seconds."""
    return not_applicable(f"a step of the copy takes {seconds:.2g} s: there is no time for {LEAST_STEPS} steps")


def too_few_steps(steps: int) -> str:
    """Return why a copy with so many steps at one rate, which have not halved its loss, is not judged."""
    return f"{steps} steps at one rate have not halved the loss of the batch, and there is no time for more"


def has_learned(first: float, curves: Mapping[str, Sequence[float]]) -> bool:
    """Return whether one of the curves has halved the loss."""
    return min(map(least, curves.values())) < (1 - _LEARNED) * first


def judge_learning(learned: Learned) -> Tested:
    """Judge whether one batch can be learned, and is learned by the optimizer of the script."""
    first, steps, name, own = learned.first, learned.steps, learned.optimizer, learned.own
    best_name = min(learned.curves, key=lambda curve: least(learned.curves[curve]))
    best = least(learned.curves[best_name])
    evidence: JsonObject = {
        "losses": {curve: _sampled(losses) for curve, losses in {**learned.curves, name: own}.items()},
        "steps": steps,
    }
    scale = max(abs(first), 1e-12)
    decrease = (first - best) / scale
    is_early = learned.step < _EARLY
    if decrease < _STUCK and first > 0 and is_early:
        still = learned.still
        where = (
            f"; no gradient reaches {len(still)} of {learned.parameters} parameters, first {still[0]}" if still else ""
        )
        return failed(
            f"Adam at three rates lowers the loss of this one batch from {first:.4g} to {best:.4g} in {steps} steps, "
            f"{100 * max(decrease, 0):.1f} %{where}",
            "look at what saturates or cuts the gradient off: dead or saturated activations, frozen parameters, all "
            "weights 0, and at whether the inputs tell the samples apart",
            **evidence,
        )
    constant = learned.constant
    if constant is not None and constant > 0 and best >= _NO_BETTER * constant and is_early and steps == STEPS:
        return failed(
            f"Adam at three rates lowers the loss of this one batch to {best:.4g} in {steps} steps; the best constant "
            f"prediction has {constant:.4g}",
            "look at what keeps the inputs from reaching the loss: dead or saturated activations, rounding, weights "
            "that are all 0, frozen layers",
            constant=constant,
            **evidence,
        )
    if own and decrease > _LEARNED and first > 0:
        last, rate = own[-1], learned.rate
        at_rate = f" at a rate of {rate:g}" if rate else ""
        if not math.isfinite(last) or (min(own[1:] or own) > first and last > _DIVERGED * first):
            return failed(
                f"{name}{at_rate} raises the loss of this one batch from {first:.4g} to {last:.4g} in "
                f"{steps} steps; {best_name} lowers it to {best:.4g}",
                "lower the learning rate",
                **evidence,
            )
        if abs(last - first) < _STILL * scale and rate > 0:
            return failed(
                f"{name}{at_rate} leaves the loss of this one batch at {last:.6g} for {steps} steps; "
                f"{best_name} lowers it from {first:.4g} to {best:.4g}",
                "raise the learning rate, or look at what makes the gradients small: a loss that is divided, clipping",
                **evidence,
            )
    with_own = f"{least(own):.4g} with {name}, and to " if own else ""
    return passed(
        f"in {steps} steps the loss of this one batch falls from {first:.4g} to {with_own}{best:.4g} with {best_name}",
        **evidence,
    )


def judge_exchange(first: float, learned: float, exchanged: float, relabelled: float, worth: str = "") -> Tested:
    """Judge the loss of a copy that has learned its batch, if each sample gets the input of another one.

    Predictions without the input are the same for all samples, so that labels, too, can change places: where that
    raises the loss, samples are compared with each other, and all that changed was their order.

    Args:
        relabelled: The loss if each sample gets the labels of another one, all of them once, and keeps its input.
        worth: What ``worth_of_input`` says of the model itself.
    """
    gain = first - learned
    if gain <= 0:
        return not_applicable(NOT_LEARNED)
    if exchanged - learned <= _USELESS * gain and exchanged < _SAME * max(learned, 0.0):
        if relabelled - learned > _USELESS * gain:
            return not_applicable(COMPARED)
        return failed(
            f"the copy that has learned its batch (loss {first:.4g} → {learned:.4g}) has the same loss, "
            f"{exchanged:.4g}, if each sample gets the input of another one: it predicts without its input",
            "look at what the model is given: inputs that are equal in all samples, an index that is constant, a mask "
            "that hides everything",
            first=first,
            learned=learned,
            exchanged=exchanged,
        )
    return passed(
        f"learned: loss {first:.4g} → {learned:.4g}; with the inputs of other samples: {exchanged:.4g}{worth}",
        first=first,
        learned=learned,
        exchanged=exchanged,
    )


def worth_of_input(step: int, own: float, exchanged: float) -> str:
    """Return what the input is worth to the model of a step: its loss, and that with the inputs of other samples."""
    comparison = "no better than" if own >= exchanged else "better than"
    return f"; the model of step {step:,} is {comparison} that: {own:.4g} and {exchanged:.4g}"


def least(losses: Sequence[float]) -> float:
    """Return the least finite loss; infinite: there is none."""
    return min((loss for loss in losses if math.isfinite(loss)), default=math.inf)


def _sampled(losses: Sequence[float]) -> list[float]:
    stride = max(len(losses) // _SHOWN, 1)
    return [float(f"{loss:.5g}") for loss in losses[::stride]]
