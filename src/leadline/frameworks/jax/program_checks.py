"""What the programs of functions show beside values: modes of layers, keys, constants, and indices."""

from __future__ import annotations

from typing import Any

from leadline.frameworks.jax.chain import Chain
from leadline.frameworks.jax.initial_parameters import InitialParameters
from leadline.frameworks.jax.jit_wrapper import JitWrapper
from leadline.frameworks.jax.replay import Programs
from leadline.frameworks.jax.step_calls import EagerCall, JittedCall, StepOwner
from leadline.instrumentation.guard import Facts
from leadline.records.names import MADE_ANEW


class ProgramChecks:
    """Finds the checks of train steps that their programs show, each as a fact of its own."""

    def __init__(self, facts: Facts) -> None:
        self._keys, self._modes = facts.of("keys of random numbers are"), facts.of("modes of layers are")
        self._indices = facts.of("indices of tables are")
        self._constants, self._initial = facts.of("constants of functions are"), InitialParameters()

    @property
    def is_settled(self) -> bool:
        """Whether calls of functions that do not train need not be looked at again."""
        return self._initial.is_settled

    def follow(self, chain: Chain, call: JittedCall) -> None:
        """Follow the parameters of a training whose next step begins."""
        self._constants.call(self._initial.follow, chain, (call.args, call.kwargs))

    def look(self, function: JitWrapper, programs: Programs, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Look at the call of a function that does not train."""
        self._constants.call(self._initial.look, function, programs, args, kwargs)

    def of_step(self, call: JittedCall | EagerCall) -> dict[str, float]:
        """Return the checks of a train step."""
        keys, modes = self._keys.call(call.random_keys), self._modes.call(call.mode_checks)
        indices = self._indices.call(call.table_indices)
        return {**(keys or {}), **(modes or {}), **(indices or {}), **self._initial.checks, **_made_anew(call.owner)}


def _made_anew(owner: StepOwner) -> dict[str, float]:
    """Return the check of how often the state of a training's optimizer was made again."""
    states = owner.current.chain.states
    return {f"{owner.prefix}optimizer/{MADE_ANEW}": float(states.made_anew)} if states.is_followed else {}
