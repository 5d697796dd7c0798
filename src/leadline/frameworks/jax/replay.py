"""Replay: a captured step is computed once more, by a program of ours with no results but statistics."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from leadline.frameworks.jax import kernels
from leadline.frameworks.jax.facts import LossPlace, TapSite, TracedFacts
from leadline.frameworks.jax.interpreter import Interpreter
from leadline.frameworks.jax.loss_calls import TracedLossCall
from leadline.frameworks.jax.loss_numbers import LOSS_FACTS, NUMBERS, numbers_of
from leadline.frameworks.jax.tap import Tap
from leadline.frameworks.jax.tensors import Wanted, ratios_of, settings_of, tensors_of, wanted_of
from leadline.frameworks.tapped import Array, Values
from leadline.records.plan import CaptureItem
from leadline.records.series import TensorInfo
from leadline.store import layout

_MAX_PROGRAMS: Final = 16
_WORTH_COMPILING: Final = 50
"""Captures by a program that computes more than is wanted, after which one that computes just that is compiled."""
_VALUE: Final = ("sum",)
RATIO: Final = ("ratio",)
_TYPES: Final = frozenset("fiubc")
"""Kinds of the types that numpy has itself; others are copied as float32."""


class Recipe(NamedTuple):
    """What is captured at the taps of a function."""

    wanted: tuple[tuple[Tap, Wanted], ...]

    @staticmethod
    def of(
        sites: Sequence[TapSite],
        prefix: str,
        items: Sequence[CaptureItem],
        *,
        loss_calls: Sequence[TracedLossCall] = (),
        has_losses: bool = True,
    ) -> Recipe:
        """Return what some items select, with losses, hyperparameters and the changes of weights."""
        chosen: dict[Tap, Wanted] = {}
        for tensor in tensors_of(sites, prefix):
            wanted = wanted_of(tensor, items, prefix)
            if wanted is not None:
                chosen[tensor.source.tap] = wanted
        if any("update_ratio" in item.statistics for item in items):
            for name, site in ratios_of(sites, prefix).items():
                chosen[site.tap] = Wanted(TensorInfo(name, ("update",), (), "float64"), RATIO, False)
        for name, site in settings_of(sites, prefix).items():
            chosen[site.tap] = Wanted(TensorInfo(name, ("hyperparameters",), (), "float64"), _VALUE, False)
        if has_losses:
            for at, site in enumerate(site for site in sites if site.tap.kind == "loss"):
                chosen[site.tap] = Wanted(TensorInfo(f"{at}", ("losses",), (), "float64"), _VALUE, False)
        for call in loss_calls if LOSS_FACTS in items else ():
            chosen[call.tap] = Wanted(TensorInfo(call.name, ("checks",), (), "float64"), NUMBERS, False, call)
        return Recipe(tuple(chosen.items()))

    def without_loss_calls(self) -> Recipe:
        """Return all of it but the facts about loss calls, which cost next to nothing."""
        return Recipe(tuple((tap, wanted) for tap, wanted in self.wanted if wanted.loss_call is None))

    def covers(self, other: Recipe) -> bool:
        """Return whether this recipe has all that another one has, and copies no more than that one."""
        mine, its = dict(self.wanted), dict(other.wanted)
        return all(tap in mine and _covers(mine[tap], wanted) for tap, wanted in its.items()) and not any(
            wanted.has_copy and tap not in its for tap, wanted in self.wanted
        )


def _covers(wanted: Wanted, other: Wanted) -> bool:
    has_all = set(other.primaries) <= set(wanted.primaries)
    return wanted.info == other.info and wanted.has_copy == other.has_copy and has_all


def take(tap: Tap, wanted: Wanted, values: Sequence[Any]) -> list[Any]:
    """Return the row of numbers of a tensor, which begins with a mark that it was computed, and a copy if wanted."""
    if wanted.loss_call is not None:
        numbers = numbers_of(wanted.loss_call, *values)
    elif wanted.primaries == RATIO:
        after = values[1] if tap.kind == "change" else lax.convert_element_type(values[0] + values[1], values[0].dtype)
        numbers = kernels.change_ratio(values[0], after, values[1] if tap.kind == "update" else None)
    elif wanted.info.collections == ("losses",):
        numbers = kernels.summarize(lax.convert_element_type(values[0], "float32").mean(), _VALUE)
    else:
        numbers = kernels.summarize(values[0], wanted.primaries)
    row = kernels.joined([kernels.always(), numbers])
    if not wanted.has_copy:
        return [row]
    is_known = values[0].dtype.kind in _TYPES and values[0].dtype.isbuiltin
    return [row, values[0] if is_known else lax.convert_element_type(values[0], "float32")]


class CaptureProgram:
    """A program of ours that computes what a recipe says.

    Args:
        jit: ``jax.jit``, not replaced.
        evaluate: Returns what is taken at the taps, given the program's constants and arguments.
        sites: The taps by themselves.
        facts: What is known of the function.
    """

    def __init__(
        self,
        jit: Callable[..., Any],
        evaluate: Callable[[Recipe, Any], dict[Tap, list[Any]]],
        sites: Sequence[TapSite],
        loops: int,
        recipe: Recipe,
    ) -> None:
        self._sites = {site.tap: site for site in sites}
        self._wanted, self._loops = dict(recipe.wanted), loops
        self._rows: list[tuple[Tap, tuple[int, ...], bool]] = []
        """The shape of the row of each tap that was found, and whether there is a copy."""
        self.has_run = False

        def leadline_capture(values: Any) -> tuple[Any, list[Any]]:
            found = evaluate(recipe, values)
            ordered = [(tap, found[tap]) for tap, _ in recipe.wanted if tap in found]
            self._rows = [(tap, tuple(taken[0].shape), len(taken) > 1) for tap, taken in ordered]
            rows = [taken[0] for _, taken in ordered] or [kernels.always()]
            return kernels.joined(rows), [each for _, taken in ordered for each in taken[1:]]

        self._jit, self._function = jit, leadline_capture
        self._run: Callable[..., Any] | None = None

    def run(self, values: Any) -> Callable[[int], list[Values]]:
        """Compute; return a function that returns what was captured of each step of the call."""
        if self._run is None:
            self._run = self._jit(self._function, **_options(values))
        context = (jax.transfer_guard("allow"), jax.debug_nans(False), jax.debug_infs(False))
        with context[0], context[1], context[2], jax.profiler.TraceAnnotation(layout.OVERHEAD_ANNOTATION):
            numbers, copies = jax.device_get(self._run(values))
        self.has_run = True
        rows: list[tuple[Tap, Array, Array | None]] = []
        start, left = 0, list(copies)
        for tap, shape, has_copy in self._rows:
            end = start + int(np.prod(shape))
            rows.append((tap, numbers[start:end].reshape(shape), left.pop(0) if has_copy else None))
            start = end

        def values_of(step: int) -> list[Values]:
            found = (self._values(step, *row) for row in rows)
            return [value for value in found if value is not None]

        return values_of

    def _values(self, step: int, tap: Tap, row: Array, copy: Array | None) -> Values | None:
        site, wanted = self._sites[tap], self._wanted[tap]
        of_step = row[_index(site.loops[: self._loops], step)]
        inner = len(site.loops[self._loops :])
        if wanted.info.collections == ("losses",) and inner:
            numbers = of_step.reshape(-1, of_step.shape[-1]).mean(axis=0)
        else:
            numbers = of_step[(0,) * inner]
        if not numbers[0]:
            return None
        array = copy[_index(site.loops[: self._loops], step)][(0,) * inner] if copy is not None else None
        return Values(wanted.info, wanted.primaries, numbers[None, 1:].astype("f8"), array)


def _options(values: Any) -> dict[str, Any]:
    """Return the options under which each of several processes has all results, computed from these arrays."""
    for leaf in jax.tree_util.tree_leaves(values):
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            mesh = getattr(leaf.sharding, "mesh", None)
            return {} if mesh is None else {"out_shardings": NamedSharding(mesh, PartitionSpec())}
    return {}


def _index(loops: Sequence[int], step: int) -> tuple[Any, ...]:
    return tuple(np.unravel_index(step, loops)) if loops else ()


@dataclass(slots=True)
class Programs:
    """The programs that capture from one traced function.

    Args:
        traced: What ``jax.jit`` returns as the trace.
    """

    traced: Any
    facts: TracedFacts
    refusal: str = ""
    losses: Sequence[LossPlace] | None = None
    """Where the losses are in a result; None: not known yet."""
    is_noted: bool = False
    """Whether its owner knows of this trace."""
    _known: dict[Recipe, CaptureProgram] = field(default_factory=dict)
    _uses: Counter[Recipe] = field(default_factory=Counter)
    """How often a recipe was captured by the program of another one."""

    def find(self, jit: Callable[..., Any], recipe: Recipe) -> CaptureProgram:
        """Return the program for a recipe, or one that computes more, if there is one."""
        if recipe not in self._known:
            wider = next((program for known, program in self._known.items() if known.covers(recipe)), None)
            alike = next((known for known in self._known if known.without_loss_calls() == recipe), None)
            if alike is not None:
                return self._known[alike]
            self._uses[recipe] += 1
            if wider is not None and self._uses[recipe] <= _WORTH_COMPILING:
                return wider
            if len(self._known) >= _MAX_PROGRAMS:
                self._known.clear()
            self._known[recipe] = CaptureProgram(jit, self._evaluate, self.facts.sites, self.facts.loops, recipe)
        return self._known[recipe]

    def _evaluate(self, recipe: Recipe, values: Any) -> dict[Tap, list[Any]]:
        wanted = dict(recipe.wanted)
        interpreter = Interpreter(lambda tap, at: take(tap, wanted[tap], at) if tap in wanted else None)
        constants, arguments = values
        return interpreter.evaluate(self.traced.jaxpr.jaxpr, constants, arguments)[1]


def evaluate_eager(recipe: Recipe, values: dict[Tap, list[Any]]) -> dict[Tap, list[Any]]:
    """Return what is taken of arrays at hand."""
    return {tap: take(tap, wanted, values[tap]) for tap, wanted in recipe.wanted if tap in values}


class Timer:
    """The time of a piece of work: by the clock, and of the thread."""

    def __init__(self) -> None:
        self._begun, self._begun_cpu = time.perf_counter_ns(), time.thread_time_ns()

    def took(self) -> tuple[int, int]:
        """Return the nanoseconds since the beginning, by the clock and of the thread."""
        return time.perf_counter_ns() - self._begun, time.thread_time_ns() - self._begun_cpu
