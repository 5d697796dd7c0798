"""The capture plan: which tensors and statistics are captured at which steps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from leadline.records.decoding import StrictDocument
from leadline.records.names import ACCURACY, TREE_COLLECTIONS, Family, is_module_collection, module_of


@dataclass(frozen=True, slots=True)
class Schedule(StrictDocument):
    """The steps of a mode at which an item is captured."""

    every: int | None = None
    """Capture at steps with ``start <= step < end`` and ``step % every == 0``; None: not by steps."""
    every_seconds: float | None = None
    """Capture at the first step this many seconds after the last capture; None: not by time."""
    start: int = 0
    """The first step (inclusive)."""
    end: int | None = None
    """The last step (exclusive); None: no end."""
    steps: tuple[int, ...] = ()
    """Steps that are captured regardless of the other fields."""
    has_last_round: bool = True
    """Whether the last round of boosting is captured even if it is no multiple of the interval."""

    def should_capture(self, step: int) -> bool:
        """Return whether ``step`` is scheduled by its number."""
        return self.should_capture_since(step - 1, step)

    def should_capture_since(self, last: int, step: int) -> bool:
        """Return whether any step in ``(last, step]`` is scheduled by its number."""
        if any(last < listed <= step for listed in self.steps):
            return True
        if self.every is None:
            return False
        upper = step if self.end is None else min(step, self.end - 1)
        latest = upper - upper % self.every
        return latest > last and latest >= self.start

    def interval_elapsed(self, seconds_since_last: float, step: int) -> bool:
        """Return whether enough time has passed to capture at ``step``."""
        if self.every_seconds is None or step < self.start or (self.end is not None and step >= self.end):
            return False
        return seconds_since_last >= self.every_seconds


@dataclass(frozen=True, slots=True)
class CaptureItem(StrictDocument):
    """One entry of the capture plan: statistics of some tensors at some steps, and the source of the request."""

    collection: str | None = None
    """The collection of the tensors; None: selected by ``regex`` only."""
    regex: str | None = None
    """A regular expression that a tensor's name must contain (``re.search``); with a collection, both must match."""
    statistics: tuple[str, ...] = ()
    """Names of statistics; for scalars the statistic ``value``."""
    raw: bool = False
    """Whether the raw tensor is stored."""
    schedule: Schedule = field(default_factory=Schedule)
    modes: tuple[str, ...] = ("train",)
    """The modes in which the item is captured."""
    source: str = ""
    """The source of the request: ``preset``, ``rule:<name>`` or ``option``."""
    modules: str | None = None
    """A regular expression that the dotted name of a tensor's module must contain, in addition to the others."""
    custom: str | None = None
    """The user-defined collection to which the selected tensors are added."""
    family: Family | None = None
    """The kind of framework of the tensors; None: any."""

    def selects(self, name: str, collections: frozenset[str]) -> bool:
        """Return whether a tensor of this name in these collections is selected."""
        if self.collection is not None and self.collection != "all" and self.collection not in collections:
            return False
        if self.modules is not None and re.search(self.modules, module_of(name)) is None:
            return False
        return self.regex is None or re.search(self.regex, name) is not None


def custom_collections(items: Iterable[CaptureItem], name: str, collections: Iterable[str]) -> tuple[str, ...]:
    """Return the user-defined collections of a tensor."""
    members = frozenset(collections)
    return tuple(dict.fromkeys(item.custom for item in items if item.custom and item.selects(name, members)))


def may_select_module_tensors(item: CaptureItem) -> bool:
    """Return whether an item may select module inputs and outputs.

    ``all`` only does if the user requested it: for a rule it means what is captured anyway, and a rule alone must not
    cause a forward hook at every step.
    """
    if item.collection in (None, "all"):
        return item.collection is None or item.source == "option"
    return is_module_collection(item.collection)


def may_select_booster_data(item: CaptureItem) -> bool:
    """Return whether an item may select data of a booster other than its metrics: trees, importances, predictions."""
    if item.collection in (None, "all"):
        return item.collection is None or item.source == "option"
    return item.collection in TREE_COLLECTIONS or item.collection in ("labels", "predictions")


def may_select_family(item: CaptureItem, families: Iterable[Family]) -> bool:
    """Return whether an item may select tensors of some kinds of frameworks."""
    return item.family is None or item.family in families


def needs_forward_pass(item: CaptureItem) -> bool:
    """Return whether an item requires forward hooks: for module inputs and outputs, or the accuracy of a loss call.

    Other metrics do not, since the script logs them. An accuracy that a rule requests does not either: the rule uses
    what the preset captures.
    """
    if item.collection == "metrics":
        return item.source == "option" or (item.source == "preset" and item.regex == ACCURACY)
    return may_select_module_tensors(item)


def applies_to_mode(item: CaptureItem, mode: str) -> bool:
    """Return whether an item is captured in a mode; ``global`` means all modes."""
    return mode in item.modes or "global" in item.modes


@dataclass(frozen=True, slots=True)
class CapturePlan(StrictDocument):
    """Everything that a run captures."""

    items: tuple[CaptureItem, ...] = ()
    host_bytes: int = 512 << 20
    """Memory for captures that wait to be written."""
    device_bytes: int = 64 << 20
    """Device memory for the copies that change statistics need; beyond it these statistics are sampled."""
    disk_bytes: int | None = None
    """Maximum size of the run on disk; None: no limit."""
    budget: float | None = None
    """Maximum share of the step time for captures of presets and rules (0.02: two percent); None: no limit."""
