"""Whether a call shows that the training of the owner of the steps is over."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from leadline.frameworks.jax import compatibility
from leadline.frameworks.jax.step_calls import EagerCall, JittedCall, StepOwner
from leadline.frameworks.jax.tap import tap_p


class ProgramHandover:
    """The owner of the steps, and whether the latest call of another one shows that its training is over.

    It is if what the owner's last step has returned is not used by that call, or trained by it: a discriminator is used
    by the steps of its generator, which do not train it. Where the script has dropped what that step has returned,
    for weights that start over or for some that it has computed from these, it is decided as for a start over within
    the steps of one owner, see ``Chain``.

    Attributes:
        is_over: Whether the latest call shows that.
    """

    def __init__(self) -> None:
        self._owner: weakref.ref[StepOwner] | None = None
        self.is_over = False

    def follow(self, owner: StepOwner) -> None:
        """Note the owner of the steps."""
        if self._owner is None or self._owner() is not owner:
            self._owner = weakref.ref(owner)

    def begin(self, call: JittedCall | EagerCall) -> None:
        """Look at a call before its first step."""
        owner = self._owner() if self._owner is not None else None
        if owner is None or owner is call.owner.current or not isinstance(call, JittedCall):
            self.is_over = False
        else:
            self.is_over = _is_over(owner, call)


def _is_over(owner: StepOwner, call: JittedCall) -> bool:
    ends = owner.chain.ends
    if not ends:
        return False
    left = [array for end in ends if (array := end()) is not None]
    if not left:
        return owner.chain.is_start((call.args, call.kwargs))
    arguments = list(map(id, call.function.leaves(call.args, call.kwargs)))
    used = {arguments.index(id(array)) for array in left if id(array) in arguments}
    if not used:
        return True
    jaxpr = call.traced.jaxpr.jaxpr
    return not used.isdisjoint(_trained_in(jaxpr, range(len(jaxpr.invars))))


def _trained_in(jaxpr: Any, given: Sequence[int | None]) -> Iterator[int]:
    """Yield which arguments of the whole program are trained in a program within it.

    Args:
        given: Which of them the arguments of this one are; None: it is none of them.
    """
    known = {variable: at for variable, at in zip(jaxpr.invars, given, strict=True) if at is not None}
    for equation in jaxpr.eqns:
        values = [known.get(variable) if not hasattr(variable, "val") else None for variable in equation.invars]
        if equation.primitive is tap_p:
            if equation.params["tap"].kind in ("parameter", "weight") and values[0] is not None:
                yield values[0]
            known.update(
                {variable: at for variable, at in zip(equation.outvars, values, strict=True) if at is not None}
            )
        operands = values[1:] if equation.primitive.name == "cond" else values
        for body in compatibility.bodies_of(equation):
            if len(body.invars) == len(operands):
                yield from _trained_in(body, operands)
