"""Steps at which nothing but losses is captured: they are recorded later, several at once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, NamedTuple

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.jax.facts import LossPlace
from leadline.frameworks.jax.jit_wrapper import JitWrapper
from leadline.frameworks.jax.step_calls import JittedCall, StepOwner
from leadline.frameworks.jax.tensors import LOSS
from leadline.instrumentation.guard import Guard
from leadline.records.phases import COMPUTE


class _Known(NamedTuple):
    """The function whose calls are the steps, and what is known of it from its last call that was recorded at once."""

    function: weakref.ref[JitWrapper]
    owner: StepOwner
    losses: Sequence[LossPlace]


class LossOnlySteps:
    """Defers the steps with nothing but losses of a training whose steps are the calls of one compiled function.

    Args:
        losses_of: Returns the losses of a call, given their places in the result, the result and the arguments.
    """

    def __init__(
        self,
        callbacks: StepCallbacks,
        guard: Guard,
        losses_of: Callable[[Sequence[LossPlace], Any, Sequence[Any]], Sequence[Any]],
    ) -> None:
        self._callbacks, self._guard, self._losses_of = callbacks, guard, losses_of
        self._clock, self._deferred = callbacks.cost.clock, callbacks.deferred
        self._known: _Known | None = None

    def follow(self, call: JittedCall) -> None:
        """Allow the steps after a call to be deferred, if each call of its function is one step."""
        facts = call.facts
        if facts.has_optimizer and facts.steps == 1 and not facts.is_separate_update:
            self._known = _Known(weakref.ref(call.function), call.owner.current, call.losses)
            self._callbacks.defer_loss_only_steps()

    def accepts(self, function: JitWrapper, args: Any, kwargs: Any) -> bool:
        """Return whether the step that a call of a function makes is deferred."""
        known, deferred = self._known, self._deferred
        return (
            known is not None
            and deferred.steps > 1
            and known.function() is function
            and deferred.thread == get_ident()
            and function.is_known
            and not self._callbacks.has_request()
            and self._callbacks.ends_steps(known.owner)
            and known.owner.chain.is_linked((args, kwargs))
        )

    def make(
        self, call_compiled: Callable[..., Any], function: JitWrapper, args: Any, kwargs: Any, begun_ns: int
    ) -> Any:
        """Call a function, and defer what Leadline does before and after.

        Args:
            begun_ns: When Leadline was called.
        """
        assert self._known is not None
        _, owner, places = self._known
        started_ns = self._clock()
        result = call_compiled(function, args, kwargs)
        ended_ns = self._clock()
        self._guard.call(owner.chain.end_step, result)
        losses = self._guard.call(self._losses_of, places, result, args) if function.is_known else ()
        deferred = self._deferred
        deferred.calls.append((begun_ns, started_ns, self._begin, (owner,)))
        deferred.calls.append((ended_ns, self._clock(), self._end, (owner, started_ns, losses or ())))
        deferred.steps -= 1
        return result

    def _begin(self, owner: StepOwner) -> None:
        owner.traces.calls += 1
        self._callbacks.timeline.begin_model()
        self._callbacks.before_update(owner)

    def _end(self, owner: StepOwner, begun_ns: int, losses: Sequence[Any]) -> None:
        callbacks = self._callbacks
        callbacks.timeline.call(COMPUTE, begun_ns)
        if callbacks.wants_loss():
            for at, loss in enumerate(losses):
                callbacks.record_loss((owner, at), loss, LOSS)
        callbacks.after_loss_only_update(owner)
