"""Replay: a captured step is computed once more, by a program of ours with no results but statistics."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from leadline.frameworks.capture_requests import Array, CapturedTensor
from leadline.frameworks.jax import groups, kernels, program_cache
from leadline.frameworks.jax.facts import LossPlace, TapSite, TracedFacts
from leadline.frameworks.jax.groups import RATIO, VALUE, Seen
from leadline.frameworks.jax.interpreter import Found, Interpreter
from leadline.frameworks.jax.loss_calls import TracedLossCall
from leadline.frameworks.jax.loss_numbers import LOSS_FACTS, NUMBERS
from leadline.frameworks.jax.program_cache import CachedProgram
from leadline.frameworks.jax.random_keys import RandomKeys
from leadline.frameworks.jax.table_indices import TableIndices
from leadline.frameworks.jax.tap import Tap
from leadline.frameworks.jax.tensors import Wanted, ratios_of, settings_of, tensors_of, wanted_of
from leadline.records.plan import CaptureItem
from leadline.records.series import TensorInfo
from leadline.store import layout

_MAX_PROGRAMS: Final = 16


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
            chosen[site.tap] = Wanted(TensorInfo(name, ("hyperparameters",), (), "float64"), VALUE, False)
        if has_losses:
            for at, site in enumerate(site for site in sites if site.tap.kind == "loss"):
                chosen[site.tap] = Wanted(TensorInfo(f"{at}", ("losses",), (), "float64"), VALUE, False)
        for call in loss_calls if LOSS_FACTS in items else ():
            chosen[call.tap] = Wanted(TensorInfo(call.name, ("checks",), (), "float64"), NUMBERS, False, call)
        return Recipe(tuple(chosen.items()))

    def without_loss_calls(self) -> Recipe:
        """Return all of it but the facts about loss calls, which cost next to nothing."""
        return Recipe(tuple((tap, wanted) for tap, wanted in self.wanted if wanted.loss_call is None))

    @property
    def is_loss(self) -> bool:
        """Whether it has nothing but losses."""
        return all(wanted.info.collections == ("losses",) for _, wanted in self.wanted)

    def covers(self, other: Recipe) -> bool:
        """Return whether this recipe has all that another one has."""
        mine = dict(self.wanted)
        return all(tap in mine and _covers(mine[tap], wanted) for tap, wanted in other.wanted)


def _covers(wanted: Wanted, other: Wanted) -> bool:
    has_all = set(other.primaries) <= set(wanted.primaries)
    return wanted.info == other.info and wanted.has_copy >= other.has_copy and has_all


class CaptureProgram:
    """A program of ours that computes what a recipe says.

    Args:
        jit: ``jax.jit``, not replaced.
        evaluate: Returns what ``rows_of`` returns, given the recipe, the program's constants and arguments, and how
            many elements are stacked at most.
        sites: The taps by themselves.
        loops: The number of loops around a step.

    Attributes:
        price_ns: What its first run took, most of it for its compilation, also if that was saved; 0: it has not run.
        saved_ns: What its compilation did not take because an earlier run has made it.
    """

    def __init__(
        self,
        jit: Callable[..., Any],
        evaluate: Callable[[Recipe, Any, int], Found],
        sites: Sequence[TapSite],
        loops: int,
        recipe: Recipe,
    ) -> None:
        self._sites = {site.tap: site for site in sites}
        self._wanted, self._loops = dict(recipe.wanted), loops
        self._groups: list[tuple[tuple[Tap, ...], tuple[int, ...]]] = []
        """The taps that were found, and the shape of their rows."""
        self._copied: list[tuple[int, Tap]] = []
        """The group and the tap of each copy."""
        self._max_stacked = 0
        self.price_ns = self.saved_ns = 0

        def leadline_capture(values: Any) -> tuple[Any, list[Any]]:
            found = evaluate(recipe, values, self._max_stacked)
            self._groups = [(taps, tuple(taken[0].shape)) for taps, taken in found.items()]
            self._copied = [(at, tap) for at, taps in enumerate(found) for tap in taps if self._wanted[tap].has_copy]
            rows = [taken[0] for taken in found.values()] or [kernels.always()]
            return kernels.joined(rows), [copy for taken in found.values() for copy in taken[1:]]

        self._jit, self._function = jit, leadline_capture
        self._run: Callable[..., Any] | None = None

    def run(self, values: Any, recipe: Recipe) -> Callable[[int], list[CapturedTensor]]:
        """Compute.

        Args:
            recipe: What is wanted of it, all of it or less.

        Returns:
            A function that returns what was captured of each step of the call.
        """
        wanted = dict(recipe.wanted)
        context = (jax.transfer_guard("allow"), jax.debug_nans(False), jax.debug_infs(False))
        with context[0], context[1], context[2], jax.profiler.TraceAnnotation(layout.OVERHEAD_ANNOTATION):
            if self._run is None:
                self._run = self._prepare(values)
            computed, copied = self._run(values)
            is_needed = [tap in wanted and wanted[tap].has_copy for _, tap in self._copied]
            needed = [key for key, is_one in zip(self._copied, is_needed, strict=True) if is_one]
            numbers, copies = jax.device_get((computed, list(compress(copied, is_needed))))
        copy_of = dict(zip(needed, copies, strict=True))
        rows: list[tuple[Tap, Array, Array | None]] = []
        start = 0
        for group, (taps, shape) in enumerate(self._groups):
            end = start + int(np.prod(shape))
            block = numbers[start:end].reshape(shape)
            members = ((at, tap) for at, tap in enumerate(taps) if tap in wanted)
            rows += [(tap, block[..., at, :], copy_of.get((group, tap))) for at, tap in members]
            start = end

        def values_of(step: int) -> list[CapturedTensor]:
            found: dict[Tap, CapturedTensor] = {}
            for tap, row, copy in rows:
                value = self._values(step, tap, row, copy) if tap not in found else None
                if value is not None:
                    found[tap] = value
            return [found[tap] for tap in wanted if tap in found]

        return values_of

    def _prepare(self, values: Any) -> Callable[..., Any]:
        """Return the program for values that lie where these do."""
        is_on_one = program_cache.device_of(values) is not None
        self._max_stacked = groups.MAX_STACKED if is_on_one else 0  # stacked, those of different shardings would move
        jitted: Callable[..., Any] = self._jit(self._function, **_options(values))
        if not (is_on_one and program_cache.is_usable()):
            return jitted
        program = CachedProgram(jitted, (values,))
        self.saved_ns = program.saved_ns
        return program

    def _values(self, step: int, tap: Tap, row: Array, copy: Array | None) -> CapturedTensor | None:
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
        return CapturedTensor(wanted.info, wanted.primaries, numbers[None, 1:].astype("f8"), array)


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
    keys: RandomKeys | None = None
    """What its random numbers are drawn by; None: not known yet."""
    indices: TableIndices | None = None
    """Its look-ups in tables; None: not known yet."""
    is_noted: bool = False
    """Whether its owner knows of this trace."""
    _known: dict[Recipe, CaptureProgram] = field(default_factory=dict)
    _spent_ns: Counter[Recipe] = field(default_factory=Counter)
    """What captures of a recipe took that the program of another one has made."""

    def find(self, jit: Callable[..., Any], recipe: Recipe) -> CaptureProgram:
        """Return the program for a recipe, or one that computes more.

        A program that computes just what is wanted is compiled when those that compute more have taken as long for it
        as it takes to compile one: all in all at most twice the time of the better choice.
        """
        if recipe not in self._known:
            wider = next((program for known, program in self._known.items() if known.covers(recipe)), None)
            alike = next((known for known in self._known if known.without_loss_calls() == recipe), None)
            if alike is not None:
                return self._known[alike]
            if wider is not None and self._spent_ns[recipe] < wider.price_ns:
                return wider
            if len(self._known) >= _MAX_PROGRAMS:
                self._known.clear()
            self._known[recipe] = CaptureProgram(jit, self._evaluate, self.facts.sites, self.facts.loops, recipe)
        return self._known[recipe]

    def note_time(self, recipe: Recipe, took_ns: int) -> None:
        """Note what a capture of a recipe took, by a program that was compiled before."""
        if recipe not in self._known:
            self._spent_ns[recipe] += took_ns

    def _evaluate(self, recipe: Recipe, values: Any, max_stacked: int) -> Found:
        wanted = dict(recipe.wanted)
        interpreter = Interpreter(
            lambda tap, at: Seen(at) if tap in wanted else None,
            lambda found: groups.rows_of(wanted, found, max_stacked),
        )
        constants, arguments = values
        return interpreter.evaluate(self.traced.jaxpr.jaxpr, constants, arguments)[1]


def evaluate_eager(recipe: Recipe, values: dict[Tap, list[Any]], max_stacked: int) -> Found:
    """Return what is taken of arrays at hand."""
    found = {tap: Seen(values[tap]) for tap, _ in recipe.wanted if tap in values}
    return groups.rows_of(dict(recipe.wanted), found, max_stacked)


class Timer:
    """The time of a piece of work: by the clock, and of the thread."""

    def __init__(self) -> None:
        self._begun, self._begun_cpu = time.perf_counter_ns(), time.thread_time_ns()

    def took(self) -> tuple[int, int]:
        """Return the nanoseconds since the beginning, by the clock and of the thread."""
        return time.perf_counter_ns() - self._begun, time.thread_time_ns() - self._begun_cpu
