"""The capture plan: what is captured, at which steps; all that the training side knows of rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from leadline.records.names import ACCURACY, TREE_COLLECTIONS, Family, is_module_collection, module_of


@dataclass(frozen=True, slots=True)
class Schedule:
    """At which steps something is captured; the steps are those of a mode."""

    every: int | None = None
    """A step is due when ``start <= step < end`` and ``step % every == 0``; None: not by steps."""
    every_seconds: float | None = None
    """A step is due when so many seconds have passed since the last that was; None: not by time."""
    start: int = 0
    """The first step (inclusive)."""
    end: int | None = None
    """The end of the steps (exclusive); None: no end."""
    steps: tuple[int, ...] = ()
    """Steps that are due whatever the other fields say."""

    def is_due(self, step: int) -> bool:
        """Whether ``step`` is due by its number."""
        return self.is_due_since(step - 1, step)

    def is_due_since(self, last: int, step: int) -> bool:
        """Whether some step in ``(last, step]`` is due by its number."""
        if any(last < listed <= step for listed in self.steps):
            return True
        if self.every is None:
            return False
        upper = step if self.end is None else min(step, self.end - 1)
        latest = upper - upper % self.every
        return latest > last and latest >= self.start

    def is_due_by_time(self, seconds_since_last: float, step: int) -> bool:
        """Whether enough time has passed for ``step`` to be due."""
        if self.every_seconds is None or step < self.start or (self.end is not None and step >= self.end):
            return False
        return seconds_since_last >= self.every_seconds


@dataclass(frozen=True, slots=True)
class CaptureItem:
    """One wish: these statistics of these tensors at these steps, and who wished it."""

    collection: str | None = None
    """The collection whose members are meant; None: only ``regex`` selects."""
    regex: str | None = None
    """A regular expression that a tensor's name must contain (``re.search``); with a collection: both must hold."""
    statistics: tuple[str, ...] = ()
    """Names of statistics; for scalars the one statistic ``value``."""
    raw: bool = False
    """Whether the tensor itself is stored."""
    schedule: Schedule = field(default_factory=Schedule)
    modes: tuple[str, ...] = ("train",)
    """The modes in which it is captured."""
    source: str = ""
    """Who asked: ``preset``, ``rule:<name>`` or ``option``."""
    modules: str | None = None
    """A regular expression that the dotted name of a tensor's module must contain; what else is asked holds too."""
    custom: str | None = None
    """The collection of the user's own that what is selected becomes a member of."""
    family: Family | None = None
    """The one kind of frameworks whose tensors are meant; None: any."""

    def selects(self, name: str, collections: frozenset[str]) -> bool:
        """Whether a tensor of that name, member of those collections, is meant."""
        if self.collection is not None and self.collection != "all" and self.collection not in collections:
            return False
        if self.modules is not None and re.search(self.modules, module_of(name)) is None:
            return False
        return self.regex is None or re.search(self.regex, name) is not None


def custom_collections(items: Iterable[CaptureItem], name: str, collections: Iterable[str]) -> tuple[str, ...]:
    """The collections of the user's own that a tensor is a member of."""
    own = frozenset(collections)
    return tuple(dict.fromkeys(item.custom for item in items if item.custom and item.selects(name, own)))


def is_of_modules(item: CaptureItem) -> bool:
    """Whether a wish may mean what modules take and give.

    ``all`` does only where the user said it: for a rule it is what is captured anyway, and a forward hook at every
    step is nothing that a rule may cause by itself.
    """
    if item.collection in (None, "all"):
        return item.collection is None or item.source == "option"
    return is_module_collection(item.collection)


def is_of_trees(item: CaptureItem) -> bool:
    """Whether a wish may mean what is known of a booster beside its metrics: trees, importances, predictions."""
    if item.collection in (None, "all"):
        return item.collection is None or item.source == "option"
    return item.collection in TREE_COLLECTIONS or item.collection in ("labels", "predictions")


def is_of_family(item: CaptureItem, families: Iterable[Family]) -> bool:
    """Whether a wish may mean something of frameworks of some kinds."""
    return item.family is None or item.family in families


def is_of_forward(item: CaptureItem) -> bool:
    """Whether a wish needs a forward pass to be seen: what modules take and give, or the accuracy of a loss call.

    Metrics in general do not: what the script logs comes without. Nor does a rule's wish for accuracy: it takes what
    the preset captures.
    """
    if item.collection == "metrics":
        return item.source == "option" or (item.source == "preset" and item.regex == ACCURACY)
    return is_of_modules(item)


def is_of_mode(item: CaptureItem, mode: str) -> bool:
    """Whether a wish is for the steps of a mode; ``global`` means all."""
    return mode in item.modes or "global" in item.modes


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """Everything that the training side is asked to do, as a plain record."""

    items: tuple[CaptureItem, ...] = ()
    host_bytes: int = 512 << 20
    """Memory for captures that wait to be written."""
    device_bytes: int = 64 << 20
    """Memory on the device for copies that change statistics need; beyond it they are sampled."""
    disk_bytes: int | None = None
    """Bytes that the run may take on disk; None: no bound."""
    budget: float | None = None
    """The share of the step time that what presets and rules ask may take (0.02: two percent); None: no limit."""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CapturePlan:
        """The inverse of ``to_dict``."""
        return cls(**{**data, "items": tuple(item_from_dict(item) for item in data["items"])})


def item_from_dict(data: Mapping[str, Any]) -> CaptureItem:
    """A capture item from plain JSON values."""
    schedule = dict(data["schedule"])
    schedule["steps"] = tuple(schedule["steps"])
    return CaptureItem(
        **{
            **data,
            "statistics": tuple(data["statistics"]),
            "modes": tuple(data["modes"]),
            "schedule": Schedule(**schedule),
        }
    )
