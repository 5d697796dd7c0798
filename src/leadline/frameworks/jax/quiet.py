"""Steps at which nothing but losses is captured: what Leadline does in them is done later, for several at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.jax.calls import JittedCall, Owner
from leadline.frameworks.jax.jitted import Jitted
from leadline.frameworks.jax.tensors import LOSS
from leadline.records.phases import COMPUTE
from leadline.training.guard import Guard


class QuietSteps:
    """Defers the quiet steps of a training whose steps are the calls of one compiled function.

    Args:
        losses_of: Returns the losses of a call, given its result and its arguments.
    """

    def __init__(
        self,
        callbacks: StepCallbacks,
        guard: Guard,
        losses_of: Callable[[JittedCall, Any, Sequence[Any]], Sequence[Any]],
    ) -> None:
        self._callbacks, self._guard, self._losses_of = callbacks, guard, losses_of
        self._clock, self._deferred = callbacks.cost.clock, callbacks.deferred
        self._call: JittedCall | None = None
        """The last call that was recorded at once, without its arguments."""

    def follow(self, call: JittedCall) -> None:
        """Allow the steps after a call to be deferred, if each call of its function is one step."""
        facts = call.facts
        if facts.has_optimizer and facts.steps == 1 and not facts.is_update_apart:
            call.forget()
            self._call = call
            self._callbacks.defer_quiet_steps()

    def accepts(self, function: Jitted) -> bool:
        """Return whether the step that a call of a function makes is deferred."""
        call, deferred = self._call, self._deferred
        return (
            call is not None
            and deferred.steps > 1
            and call.function is function
            and deferred.thread == get_ident()
            and function.is_known
            and not self._callbacks.has_request()
            and self._callbacks.ends_steps(call.owner.current)
        )

    def make(self, call_compiled: Callable[..., Any], function: Jitted, args: Any, kwargs: Any, begun_ns: int) -> Any:
        """Call a function, and defer what Leadline does before and after.

        Args:
            begun_ns: When Leadline was called.
        """
        assert self._call is not None
        owner, started_ns = self._call.owner.current, self._clock()
        result = call_compiled(function, args, kwargs)
        ended_ns = self._clock()
        losses = self._guard.call(self._losses_of, self._call, result, args) if function.is_known else ()
        deferred = self._deferred
        deferred.calls.append((begun_ns, started_ns, self._begin, (owner,)))
        deferred.calls.append((ended_ns, self._clock(), self._end, (owner, started_ns, losses or ())))
        deferred.steps -= 1
        return result

    def _begin(self, owner: Owner) -> None:
        self._callbacks.timeline.begin_model()
        self._callbacks.before_update(owner)

    def _end(self, owner: Owner, begun_ns: int, losses: Sequence[Any]) -> None:
        callbacks = self._callbacks
        callbacks.timeline.call(COMPUTE, begun_ns)
        if callbacks.wants_loss():
            for at, loss in enumerate(losses):
                callbacks.record_loss((owner, at), loss, LOSS)
        callbacks.after_quiet_update(owner)
