"""The calls that compute the steps of a training, and what was captured of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import jax
import numpy as np

from leadline.frameworks.capture_requests import CapturedTensor
from leadline.frameworks.jax.chain import Chain
from leadline.frameworks.jax.compatibility import result_tree
from leadline.frameworks.jax.facts import LossPlace, TapSite, TracedFacts, places_in
from leadline.frameworks.jax.jit_wrapper import JitWrapper
from leadline.frameworks.jax.layer_modes import mode_of_step, model_of
from leadline.frameworks.jax.loss_numbers import LOSS_FACTS, NUMBERS
from leadline.frameworks.jax.random_keys import RandomKeys
from leadline.frameworks.jax.replay import Programs, Recipe
from leadline.frameworks.jax.replayer import Replayer
from leadline.frameworks.jax.table_indices import TableIndices
from leadline.frameworks.jax.tap import Tap
from leadline.frameworks.kit.step_modes import mode_checks
from leadline.frameworks.traces import RETRACED, Traces
from leadline.records.plan import CaptureItem

_MAX_GROUPS: Final = 16
"""Computations of gradients in one step, such as those of micro-batches, whose arrays are held until it ends."""
ORIGIN: Final = CaptureItem("layers", statistics=("nan_count", "nonfinite_count"))
"""What shows the origin of a value that is not finite."""


class StepOwner:
    """The function or the optimizer whose calls are the steps of a training.

    Attributes:
        name: Its name.
        prefix: The beginning of the names of its tensors; empty for the first one alive.
        sites: The taps of its last call.
        chain: Follows its parameters from step to step.
    """

    def __init__(self, name: str, prefix: str) -> None:
        self.name, self.prefix = name, prefix
        self.sites: Sequence[TapSite] = ()
        self.chain = Chain()
        self.settings: dict[str, float] = {}
        """Its hyperparameters, as they were captured last."""
        self.traces = Traces()
        self.code: Any = None
        """The code of its function, if that is compiled."""
        self._other: StepOwner | None = None
        self._first_in_evaluation = 0
        """The call since which all were in evaluation mode; 0: the last one was not."""

    @property
    def model(self) -> str:
        """The model that it calls, by its class, or its own name."""
        return model_of(self.sites) or self.name

    def mode_checks(self, sites: Sequence[TapSite], steps: int) -> dict[str, float]:
        """Return the check of the modes of dropout and batch normalization.

        Args:
            sites: The taps of the call that begins.
            steps: The steps of each call.
        """
        mode = mode_of_step(sites)
        if mode is None or not mode.is_evaluation:
            self._first_in_evaluation = 0
        elif not self._first_in_evaluation:
            self._first_in_evaluation = self.traces.calls
        return mode_checks(mode, steps * (self.traces.calls - self._first_in_evaluation + 1))

    @property
    def optimizer(self) -> str:
        """The library of its optimizer; empty if it calls none."""
        return "optax" if any(site.tap.kind == "used_gradient" for site in self.sites) else ""

    @property
    def current(self) -> StepOwner:
        """The owner of the clock: this one, or that of the function which computes its gradients."""
        return self._other.current if self._other is not None else self

    def replace(self, other: StepOwner) -> None:
        """Let another owner stand for this one."""
        if other.current is not self:
            self._other = other


class JittedCall:
    """A call of a compiled function that trains.

    Attributes:
        steps: The number of its steps.
        index: The current one.
        replayed: Returns what was captured of each step; None: it was not replayed.
        is_over: Whether the call has returned; it is no longer replayed.
        shows_origin: Whether it was replayed with all layers, because a loss or a gradient is not finite.
        is_part: Whether it only computes gradients that another call applies.
    """

    def __init__(
        self,
        function: JitWrapper,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        programs: Programs,
        owner: StepOwner,
        replayer: Replayer,
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.owner = owner
        self._programs = programs
        self._replayer = replayer
        self.steps = self.facts.steps
        self.index = 0
        self.begun_ns = 0
        self.replayed: Callable[[int], list[CapturedTensor]] | None = None
        self.is_over = self.is_part = self.shows_origin = False
        self.items: Sequence[CaptureItem] = ()
        self._captured: set[CaptureItem] = set()

    @property
    def facts(self) -> TracedFacts:
        """What is known of the function."""
        return self._programs.facts

    @property
    def traced(self) -> Any:
        """Its program."""
        return self._programs.traced

    @property
    def sites(self) -> Sequence[TapSite]:
        """The taps in its program."""
        return self._programs.facts.sites

    @property
    def losses(self) -> Sequence[LossPlace]:
        """Where its losses are in its result."""
        programs = self._programs
        if programs.losses is None:
            programs.losses = places_in(result_tree(programs.traced), programs.facts.losses)
        return programs.losses

    def mode_checks(self) -> dict[str, float]:
        """Return the check of the modes of dropout and batch normalization."""
        return self.owner.mode_checks(self.sites, self.steps) if self.facts.has_layers else {}

    def random_keys(self) -> dict[str, float]:
        """Return the check of what its random numbers are drawn by; empty: it draws none, or several steps are made."""
        programs, leaves = self._programs, self.function.leaves(self.args, self.kwargs)
        if self.steps > 1 or not _fit(leaves, programs.traced.jaxpr.in_avals):
            return {}
        if programs.keys is None:
            collections = frozenset(name for site in self.sites for name in site.tap.collections)
            programs.keys = RandomKeys(self.function.__name__, programs.traced.jaxpr.jaxpr, collections)
        return programs.keys.checks(leaves)

    def table_indices(self) -> dict[str, float]:
        """Return the checks of the rows that it looks up in tables; empty: none is beyond them."""
        programs, leaves = self._programs, self.function.leaves(self.args, self.kwargs)
        if self.steps > 1 or not _fit(leaves, programs.traced.jaxpr.in_avals):
            return {}
        if programs.indices is None:
            programs.indices = TableIndices(programs.traced.jaxpr.jaxpr)
        return programs.indices.checks((*self.args, *self.kwargs.values()), leaves)

    def note_trace(self) -> None:
        """Tell the owner of the call, and of the trace if it is new."""
        if not self._programs.is_noted:
            self._programs.is_noted = True
            self.owner.traces.note_trace()
        self.owner.traces.calls += 1

    def values(self, items: Sequence[CaptureItem]) -> list[CapturedTensor]:
        """Return what some items select in the current step, and possibly more; the call is replayed for that."""
        if not self.is_over and not set(items) <= self._captured:
            self._captured.update(items)
            self.replayed = self._replay()
            if self._replayer.seeks_origin and self._has_non_finite():
                self._replayer.seeks_origin, self.shows_origin = False, True
                self._captured.add(ORIGIN)
                self.replayed = self._replay()
        return self.replayed(self.index) if self.replayed is not None else []

    def _has_non_finite(self) -> bool:
        """Return whether a loss or a gradient of one of the steps is NaN or infinite."""
        values = [value for step in range(self.steps) for value in (self.replayed(step) if self.replayed else [])]
        return any(map(_is_non_finite, values))

    def updates(self, items: Sequence[CaptureItem]) -> list[CapturedTensor]:
        """Return what was captured of the updates of the current step, among other things."""
        return self.values(items)

    def replayed_losses(self) -> list[float]:
        """Return the losses of the current step, as the replay has computed them."""
        values = self.replayed(self.index) if self.replayed is not None else []
        return [float(value.numbers[0, 1]) for value in values if value.info.collections == ("losses",)]

    def loss_facts(self) -> dict[str, float]:
        """Return the facts about the loss calls of the current step, by their names."""
        calls = self.facts.loss_calls
        if not calls:
            return {}
        found = {f"{call.name}/{fact}": number for call in calls for fact, number in call.known}
        for value in self.values((LOSS_FACTS,)):
            if value.primaries == NUMBERS:
                found |= {
                    f"{value.info.name}/{fact}": float(n)
                    for fact, n in zip(NUMBERS, value.numbers[0, 1:], strict=True)
                    if n == n
                }
        return found

    def _replay(self) -> Callable[[int], list[CapturedTensor]] | None:
        programs, leaves = self._programs, self.function.leaves(self.args, self.kwargs)
        if self.function.is_ambiguous or not _fit(leaves, programs.traced.jaxpr.in_avals):
            programs = self._programs = self.function.retrace(self.args, self.kwargs)
        if programs.refusal:
            return None
        if self.owner.traces.are_repeated:
            self._replayer.refuse(self.function.__name__, programs, RETRACED)
            return None
        recipe = Recipe.of(
            self.sites, self.owner.current.prefix, tuple(self._captured), loss_calls=programs.facts.loss_calls
        )
        if recipe.is_loss and self.losses:
            return None  # it is read from the result of the call
        return self._replayer.replay(self.function.__name__, programs, recipe, leaves)


class EagerCall:
    """A step that the script computes outside of compiled functions, with the arrays at its taps."""

    def __init__(self, replayer: Replayer) -> None:
        self._replayer = replayer
        self.owner = StepOwner("", "")
        self.steps = 1
        self.index = 0
        self.shows_origin = False
        self._arrays: dict[Tap, list[Any]] = {}
        self._groups: dict[int, int] = {}

    def mode_checks(self) -> dict[str, float]:
        """Return nothing: what depends on what is trained shows in traced programs."""
        return {}

    def random_keys(self) -> dict[str, float]:
        """Return nothing: what random numbers are drawn by shows in traced programs."""
        return {}

    def table_indices(self) -> dict[str, float]:
        """Return nothing: what is looked up shows in traced programs."""
        return {}

    def loss_facts(self) -> dict[str, float]:
        """Return nothing: facts about loss calls are those of traced programs."""
        return {}

    def add(self, tap: Tap, values: Sequence[Any]) -> None:
        """Add the arrays at a tap; calls are numbered from 0 in each step, so that all steps have the same taps."""
        is_further = tap.group not in self._groups and len(self._groups) >= _MAX_GROUPS
        if is_further and tap.kind in ("parameter", "gradient"):
            return
        group = self._groups.setdefault(tap.group, len(self._groups))
        self._arrays.setdefault(replace(tap, group=group), list(values))

    @property
    def sites(self) -> list[TapSite]:
        """Its taps."""
        return [TapSite(tap, (), tuple(map(_form, values))) for tap, values in self._arrays.items()]

    def values(self, items: Sequence[CaptureItem]) -> list[CapturedTensor]:
        """Return what some items select of the arrays so far."""
        return self._captured(items, self.sites)

    def updates(self, items: Sequence[CaptureItem]) -> list[CapturedTensor]:
        """Return what was captured of the updates."""
        return self._captured(items, [site for site in self.sites if site.tap.kind in ("update", "change")])

    def _captured(self, items: Sequence[CaptureItem], sites: Sequence[TapSite]) -> list[CapturedTensor]:
        recipe = Recipe.of(sites, self.owner.current.prefix, items, has_losses=False)
        if not recipe.wanted:
            return []
        return self._replayer.compute(recipe, sites, {tap: self._arrays[tap] for tap, _ in recipe.wanted})


def _fit(arrays: Sequence[Any], avals: Sequence[Any]) -> bool:
    """Return whether arrays have the shapes that a program was traced with."""
    return list(map(np.shape, arrays)) == [aval.shape for aval in avals]


def _is_non_finite(value: CapturedTensor) -> bool:
    if value.info.collections == ("losses",):
        return not np.isfinite(value.numbers[0, 1])
    if "gradients" not in value.info.collections:
        return False
    counts = [value.numbers[0, 1 + at] for at, name in enumerate(value.primaries) if name == "nonfinite_count"]
    return any(counts)


def _form(array: Any) -> Any:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)
