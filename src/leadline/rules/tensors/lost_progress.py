"""The rule lost_progress."""

from __future__ import annotations

from typing import ClassVar, Final

from leadline.records.formatting import counted
from leadline.records.names import INITIALIZED_AGAIN, MADE_ANEW, POSSIBLE_CAUSES, SCHEDULE_NOT_LOADED, STATE_NOT_LOADED
from leadline.rules import Advice, Clear, Fired, Needs, Rule, TensorNeed, TensorReading, Undecided, Verdict, Window
from leadline.rules.bounds import PositiveInt
from leadline.rules.messages import and_more, fired, suspected

_EVERY: Final = 10
_REMARKED: Final = (STATE_NOT_LOADED, SCHEDULE_NOT_LOADED)
_ANEW_ADVICE: Final = Advice(
    "{making_the_optimizer} once, before the first epoch (a schedule changes its learning rate); usually this is done "
    "inside of the loop over the epochs, or by a function that trains for one"
)
_INITIALIZED_ADVICE: Final = Advice(
    "initializing the model once, before the training, and a new optimizer where a training is to start over; usually "
    "a function that initializes layers, or reset_parameters(), is called inside of the loop over the epochs"
)


class LostProgress(Rule, frozen=True, kw_only=True):
    """Fires when a training loses what it had: its optimizer is made anew, or its weights are initialized again.

    Why it matters:
        Adam without its moments takes first steps of full size in every direction, and SGD without its momentum begins
        slowly; an optimizer that is made in every epoch pays for that in each of them, and its warm-up and bias
        correction start over. Weights that are initialized again have learned nothing. The loss falls all the same.
    How it decides:
        Fires if at least ``patience`` optimizers in a row went on with the training of the one before: of the same
        class, made with the same settings, but for a learning rate that differs by less than a factor of 2, over the
        same parameters as its last step had left them, with an empty state, where that class gathers one (moments,
        momentum, counts), after fewer than 1,000 steps of the one before; a state that is lost more rarely costs
        little. In JAX an optimizer is made again where a compiled step is given the parameters that the last one has
        returned, and a state whose count is 0 and another array than the one returned. Fires too if a parameter was
        initialized, by a function of ``torch.nn.init``, at least ``patience`` times between updates of one optimizer.
        Undecided while one of the counts is between 1 and that. At the end of a run it remarks that an optimizer began
        without a state, although the file that its model was loaded from has one of an optimizer with as many
        parameters; and that an optimizer began with a loaded state of several steps, and its schedule, from the same
        initial rate, at step 0, although such a file has the state of a schedule at a later one.
    Not a number:
        Only these counts are evaluated.
    Blind spots:
        A new optimizer with half the rate of the one before, or twice that, is taken for the one of another phase;
        one with the same settings for each of several short tasks in turn (continual learning) fires, though it may be
        meant.
        Weights that are copied, loaded or set without ``torch.nn.init`` are not seen. Resets of a part of the model
        that are meant to help (of dead codes, of the last layers in reinforcement learning) fire if they use it. A
        model that was loaded from a checkpoint in order to train it on other data needs no state: the remark is for
        trainings that go on. Only PyTorch's optimizers and states of optax are observed; a state that a compiled step
        itself initializes is not.
    Args:
        patience: Optimizers in a row, or initializations of a parameter, >= 1.
    Source:
        Ours; ``torch.optim.Optimizer.state_dict``.
    """

    explains: ClassVar[tuple[str, ...]] = (
        "loss_spike",
        "diverging_loss",
        "loss_not_decreasing",
        "metric_not_improving",
    )

    patience: PositiveInt = 3

    def needs(self) -> Needs:
        return Needs(
            tuple(
                TensorNeed("checks", regex=f"/{check}$", statistics=("value",), modes=("train",), every=_EVERY)
                for check in (MADE_ANEW, INITIALIZED_AGAIN, *_REMARKED)
            )
        )

    def evaluate(self, window: Window) -> Verdict:
        readings = [reading for reading in window.readings("value") if reading.value == reading.value]
        counts = [reading for reading in readings if not reading.tensor.endswith(_REMARKED)]
        if not counts:
            return Undecided("no step of an optimizer was observed")
        worst = max(counts, key=lambda reading: reading.value)
        if worst.value >= self.patience:
            return self._made_anew(worst) if worst.tensor.endswith(MADE_ANEW) else self._initialized(worst, counts)
        if worst.value:
            is_of_optimizers = worst.tensor.endswith(MADE_ANEW)
            return suspected(int(worst.value), self.patience, "optimizers" if is_of_optimizers else "initializations")
        remarks = [_remark(reading) for reading in readings if reading.value > 0 and reading.tensor.endswith(_REMARKED)]
        return Clear({"remarks": remarks[:1], POSSIBLE_CAUSES: remarks[:1]} if remarks else {})

    def _made_anew(self, worst: TensorReading) -> Fired:
        count = int(worst.value)
        return fired(
            f"{_owner(worst)} was made anew {counted(count, 'time')} over the same parameters, and each began without "
            "the state of the one before",
            worst,
            advice=_ANEW_ADVICE,
            evidence={"made_anew": count, "patience": self.patience},
        )

    def _initialized(self, worst: TensorReading, counts: list[TensorReading]) -> Fired:
        of_parameters = (reading for reading in counts if reading.tensor.endswith(INITIALIZED_AGAIN))
        found = [worst, *(reading for reading in of_parameters if reading.value >= self.patience)]
        count, more = int(worst.value), and_more(len({reading.tensor for reading in found}) - 1, "parameter")
        return fired(
            f"{_owner(worst)}{more}: initialized again {counted(count, 'time')} between updates of their optimizer",
            *found,
            advice=_INITIALIZED_ADVICE,
            evidence={"initialized_again": count, "patience": self.patience},
        )


def _owner(reading: TensorReading) -> str:
    return reading.tensor.rpartition("/")[0]


def _remark(reading: TensorReading) -> str:
    if reading.tensor.endswith(SCHEDULE_NOT_LOADED):
        return (
            f"the state of {_owner(reading)} was loaded, and its schedule began at step 0, although the file has the "
            f"state of a schedule at step {reading.value:,.0f}: if this training goes on with that one, load it, too "
            "(scheduler.load_state_dict)"
        )
    return (
        f"{_owner(reading)} began without a state, although the file that its model was loaded from has one of an "
        "optimizer with as many parameters: if this training goes on with that one, load it, too"
    )
