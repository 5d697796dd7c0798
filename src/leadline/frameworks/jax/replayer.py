"""The replayer: captures steps by programs of ours, and accounts for the time that they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.capture_requests import CapturedTensor, record_compilation
from leadline.frameworks.jax.facts import TapSite
from leadline.frameworks.jax.replay import CaptureProgram, Programs, Recipe, Timer, evaluate_eager
from leadline.frameworks.jax.tap import Tap
from leadline.frameworks.kit.uncaptured import Uncaptured


class Replayer:
    """Captures from calls of the script, which it computes once more.

    Args:
        jit: The original ``jax.jit``.
        uncaptured: Describes what cannot be replayed.

    Attributes:
        jit: The original ``jax.jit``.
        seeks_origin: Whether no loss and no gradient of a replayed step was NaN or infinite so far.
    """

    def __init__(self, jit: Callable[..., Any], callbacks: StepCallbacks, uncaptured: Uncaptured) -> None:
        self.jit = jit
        self._callbacks = callbacks
        self._uncaptured = uncaptured
        self._eager_programs: dict[Recipe, CaptureProgram] = {}
        self._elsewhere_ns = 0
        self.seeks_origin = True

    def refuse(self, name: str, programs: Programs, why: str) -> None:
        """Note that a function cannot be replayed."""
        programs.refusal = why
        self._uncaptured.refuse(name, "gradients, weights and activations", why)

    def replay(
        self, name: str, programs: Programs, recipe: Recipe, leaves: Sequence[Any]
    ) -> Callable[[int], list[CapturedTensor]] | None:
        """Compute a function once more.

        Args:
            name: That of the function.
            leaves: The arrays among its arguments.

        Returns:
            What returns the values of each step of the call; None: it cannot be replayed.
        """
        program, jaxpr = programs.find(self.jit, recipe), programs.traced.jaxpr
        if len(leaves) != len(jaxpr.in_avals):
            self.refuse(name, programs, "its arguments are not those of its program")
            return None
        timer = Timer()
        try:
            jax.block_until_ready(leaves)
            timer = Timer()  # without the time of steps that were still computed
            return program.run((jaxpr.consts, leaves), recipe)
        except (TypeError, ValueError, NotImplementedError, RuntimeError) as error:
            first = str(error).partition("\n")[0]
            self.refuse(name, programs, f"its replay failed ({type(error).__name__}: {first})")
            return None
        finally:
            programs.note_time(recipe, self._account(timer, program))

    def compute(self, recipe: Recipe, sites: Sequence[TapSite], arrays: dict[Tap, list[Any]]) -> list[CapturedTensor]:
        """Return what a recipe selects of arrays at hand."""
        if recipe not in self._eager_programs:
            self._eager_programs[recipe] = CaptureProgram(self.jit, evaluate_eager, sites, 0, recipe)
        program, timer = self._eager_programs[recipe], Timer()
        found = program.run(arrays, recipe)(0)
        self._account(timer, program)
        return found

    def _account(self, timer: Timer, program: CaptureProgram) -> int:
        """Account for a replay, and return what it took: the first one of a program is that of its compilation."""
        took, took_cpu = timer.took()
        if not program.price_ns:
            program.price_ns = took + program.saved_ns
            record_compilation(self._callbacks, took, took_cpu)
            return 0
        self._elsewhere_ns += took - took_cpu
        return took

    def take_blocked_ns(self) -> int:
        """Return the time that replays have taken in other threads since the last call."""
        taken, self._elsewhere_ns = self._elsewhere_ns, 0
        return taken
