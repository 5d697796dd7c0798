"""Steps of a training with Gluon: backward passes with their losses, and updates of trainers."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Final

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.call_site import CallSite
from leadline.frameworks.frozen_parameters import FrozenParameters
from leadline.frameworks.kit.fresh_gradients import FRESH_GRADIENTS
from leadline.frameworks.mxnet.arrays import arrays_in
from leadline.frameworks.mxnet.late_loss import LossMean, MXNetScalar
from leadline.frameworks.process_memory import process_memory

_MAX_CALLS: Final = 64
"""Loss calls that are remembered between two updates."""
_OWN_REFERENCES: Final = 2
"""References to an array that only the memory of its call holds, while they are counted."""
_LONG_WAIT_NS: Final = 2_000_000
"""Waiting longer than this for a loss costs more than copying it and reading it one step later."""
_LONG_WAITS: Final = 3
"""The number of consecutive long waits after which losses are read one step later."""


@dataclass(frozen=True, slots=True, eq=False)
class LossOutput:
    """The output of a loss block; None: the script holds it no longer, and others have followed."""

    name: str
    output: Any


class Losses:
    """The outputs of loss blocks from which no backward pass began yet, and what they were scaled to.

    MXNet's arrays cannot be referred to weakly: they are held until the update, as long as the script holds them or no
    other loss was called, since with them lives all that their gradients need.
    """

    def __init__(self) -> None:
        self._calls: list[LossOutput] = []
        self._unscaled: list[tuple[Any, Any]] = []
        self._late: list[LossMean] = []
        self.candidate: tuple[Any, LossOutput] | None = None
        """The last call of a block without parameters, which may be a criterion of the script, and its output."""
        self.given: tuple[str, Sequence[Any]] | None = None
        """The last block with parameters that the script has called, and its inputs."""
        self.criteria: weakref.WeakSet[Any] = weakref.WeakSet()
        """Blocks of the script at whose output a backward pass began."""

    def clear(self) -> None:
        """Forget all calls: a step ends."""
        self._calls.clear()
        self._unscaled.clear()
        self.candidate = self.given = None

    def add(self, name: str, output: Any) -> None:
        """Add a call of a loss block."""
        for at, call in enumerate(self._calls):
            if call.output is not None and sys.getrefcount(call.output) <= _OWN_REFERENCES:
                self._calls[at] = LossOutput(call.name, None)
        self._calls = [*self._calls[1 - _MAX_CALLS :], LossOutput(name, output)]

    def add_scaled(self, scaled: Any, losses: Any) -> None:
        """Add losses that were multiplied by a loss scale."""
        pairs = zip(arrays_in(scaled), arrays_in(losses), strict=True)
        self._unscaled = [*self._unscaled[-_MAX_CALLS:], *pairs]

    def resolve(self, heads: Sequence[Any]) -> Iterator[tuple[str | None, LossMean]]:
        """Yield name and mean of each loss that a backward pass starts from.

        A head that is computed from the output of the only loss call is that loss, whatever it was scaled by. A head
        that is computed from several calls of one block has its name.
        """
        for head in map(self._without_scale, heads):
            own = next((call for call in self._calls if call.output is head), None)
            if own is not None:
                self._calls.remove(own)
                yield own.name, LossMean(own.output)
                continue
            if self.candidate is not None and self.candidate[1].output is head:
                self.criteria.add(self.candidate[0])
                yield self.candidate[1].name, LossMean(head)
                continue
            calls = self._calls
            names = {call.name for call in calls}
            is_loss = len(calls) == len(heads) == 1
            self._calls = []
            yield names.pop() if len(names) == 1 else None, LossMean(head, calls[0].output if is_loss else None)

    def add_late(self, mean: LossMean) -> MXNetScalar:
        """Return a loss that is read later, see ``take_late``."""
        mean.copy_arrays()
        self._late.append(mean)
        return MXNetScalar([mean])

    def take_late(self) -> list[LossMean]:
        """Return the losses that were not read at once; the caller reads them, once MXNet was given further work."""
        late, self._late = self._late, []
        return late

    def _without_scale(self, head: Any) -> Any:
        return next((loss for scaled, loss in self._unscaled if scaled is head), head)


class GluonSteps:
    """Calls the recorder at each backward pass and update.

    Args:
        losses: The calls of loss blocks.
        take_facts: Returns the facts about the loss calls of the step.
    """

    def __init__(self, callbacks: StepCallbacks, losses: Losses, take_facts: Callable[[], Mapping[str, float]]) -> None:
        self._callbacks = callbacks
        self._read = callbacks.facts.of("losses are", is_vital=True)
        self._skips = callbacks.facts.of("whether a loss scaler skips an update is")
        self.losses = losses
        self._take_facts = take_facts
        self._frozen = FrozenParameters()
        self._sites: dict[tuple[CodeType, int, str | None], CallSite] = {}
        """The places that call ``backward``, by the name of the loss."""
        self._begun: Any = None
        """The trainer whose update was begun."""
        self._clock, self._long_waits = callbacks.cost.clock, 0
        self._owner: weakref.ref[Any] | None = None
        """The trainer whose updates are the steps."""
        self.is_over = False
        """Whether the latest update of another one shows that its training is over."""

    def begin_backward(self) -> None:
        """Begin a backward pass."""
        timeline, listener = self._callbacks.timeline, self._callbacks.listener
        timeline.end_forward()
        timeline.begin_backward()
        if not listener.is_idle:
            listener.mark("backward")

    def end_backward(self, heads: Any, has_gradients: bool, frame: FrameType) -> None:
        """End a backward pass, whose operators may still be computed.

        Args:
            has_gradients: Whether the script gives the gradients of the heads, which then need not be losses.
            frame: The caller of ``backward``.
        """
        callbacks, late = self._callbacks, self.losses.take_late()
        if late or callbacks.wants_loss():
            arrays = list(arrays_in(heads)) if callbacks.wants_loss() else []
            begun = callbacks.cost.begin(is_measured=True)  # it waits for a loss, others do not
            for name, mean in self.losses.resolve(arrays):
                if name is not None or not has_gradients:
                    key = (frame.f_code, frame.f_lasti, name)
                    site = self._sites.get(key) or self._sites.setdefault(key, CallSite(*key[:2]))
                    loss = self._read.call(self._loss_of, mean)
                    if loss is not None:
                        callbacks.record_loss(site, loss, name)
            for mean in late:
                self._read.call(mean.read)
            callbacks.cost.end(begun)
        callbacks.timeline.end_backward()

    def _loss_of(self, mean: LossMean) -> float | MXNetScalar:
        """Return a loss, or what reads it later: MXNet runs ahead of the script at steps that capture only losses."""
        if self._callbacks.cost.measures_all:
            return mean.read()
        if self._long_waits == _LONG_WAITS:
            return self.losses.add_late(mean)
        began = self._clock()
        value = mean.read()
        self._long_waits = self._long_waits + 1 if self._clock() - began > _LONG_WAIT_NS else 0
        return value

    def begin_update(self, trainer: Any) -> None:
        """Begin an update: the gradients are complete."""
        if self._begun is trainer:
            return
        self._begun = trainer
        owner = self._owner() if self._owner is not None else None
        self.is_over = owner is not None and owner is not trainer and _is_over(owner, trainer)
        callbacks = self._callbacks
        callbacks.before_update(trainer)
        if callbacks.wants_checks():
            callbacks.record_checks({**process_memory(), **_fresh_gradients(trainer), **self._frozen_of(trainer)})
        if callbacks.loss_facts_step() is not None:
            callbacks.record_checks(self._take_facts())
        callbacks.timeline.begin_update()

    def _frozen_of(self, trainer: Any) -> dict[str, float]:
        """Return the checks of the parameters whose own multiplier of the learning rate is 0."""
        multipliers = {
            parameter.name: parameter.lr_mult for parameter in trainer._params if parameter.grad_req != "null"
        }
        frozen = {name for name, multiplier in multipliers.items() if multiplier == 0}
        return self._frozen.checks(frozen, multipliers.keys() - frozen)

    def end_update(self, trainer: Any) -> None:
        """End an update. May raise ``TrainingStopped``."""
        self._begun = None
        self.losses.clear()
        self._callbacks.timeline.end_update()
        self._callbacks.after_update(trainer, is_skipped=bool(self._skips.call(_was_skipped, trainer)))
        if self._callbacks.ends_steps(trainer):
            self._owner = weakref.ref(trainer)

    def leave_update(self) -> None:
        """Handle an update that was left by an exception."""
        self._begun = None
        self._callbacks.timeline.leave_update()


def _is_over(owner: Any, trainer: Any) -> bool:
    """Return whether an update of a trainer shows that the training of another one is over.

    It is if the update changes the first or the last parameter of that one, or if no backward pass has reached them
    since their own update: a discriminator is reached by the backward passes of its generator.
    """
    trained = [parameter for parameter in owner._params if parameter.grad_req != "null" and parameter._grad]
    ends = (*trained[:1], *trained[-1:])
    if any(end is parameter for end in ends for parameter in trainer._params):
        return True
    return not any(array._fresh_grad for end in ends for array in end.list_data())


def _fresh_gradients(trainer: Any) -> dict[str, float]:
    is_fresh = all(parameter.grad_req != "add" for parameter in trainer._params)
    return FRESH_GRADIENTS if is_fresh else {}


def _was_skipped(trainer: Any) -> bool:
    """Return whether the loss scaler of AMP has just skipped an update: then it halves its scale."""
    scaler = getattr(trainer, "_amp_loss_scaler", None)
    return scaler is not None and scaler._unskipped == 0 and scaler._next_loss_scale < scaler._loss_scale
