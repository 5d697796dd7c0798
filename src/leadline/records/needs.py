"""What a rule needs to see: which statistics of which tensors, or the passing of time."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorNeed:
    """Some statistics of some tensors."""

    collection: str | None = None
    """The collection whose members are meant; None: only ``regex`` selects."""
    regex: str | None = None
    """What a tensor's name must contain (``re.search``); with a collection: both must hold."""
    statistics: tuple[str, ...] = ()
    """Names of statistics; for scalars the one statistic ``value``."""
    raw: bool = False
    """Whether the tensors themselves are needed."""
    modes: tuple[str, ...] = ()
    """The modes that are judged; none: every mode that is captured anyway, and train is captured."""
    every: int | None = None
    """The interval in steps; None: that of the collection in the run's preset."""
    history: int | None = 0
    """How many earlier readings of a tensor the rule looks back at; None: all."""
    end: int | None = None
    """The step of the mode from which on it is needed no more; None: to the end. Without ``every``: each before."""

    def selects(self, name: str, collections: tuple[str, ...]) -> bool:
        """Whether a tensor of that name, member of those collections, is meant."""
        if self.collection is None and self.regex is None:
            return False
        if self.collection not in (None, "all") and self.collection not in collections:
            return False
        return self.regex is None or re.search(self.regex, name) is not None


@dataclass(frozen=True, slots=True)
class MetricNeed:
    """A metric of the machine."""

    kind: str
    """As in ``Channel``: ``cpu``, ``memory``, ``gpu`` …"""
    metric: str
    device: str | None = None
    """Only this one; None: all that there are."""

    def selects(self, kind: str, device: str, metric: str) -> bool:
        """Whether a channel is meant."""
        return kind == self.kind and metric == self.metric and self.device in (None, device)


@dataclass(frozen=True, slots=True)
class Needs:
    """All that a rule needs."""

    tensors: tuple[TensorNeed, ...] = ()
    """It is judged at each step at which one of these was captured."""
    scan_seconds: float | None = None
    """For a rule of time: it is judged on a grid of so many seconds from the run's start."""
    metrics: tuple[MetricNeed, ...] = ()
    """For a rule of time: what it is shown of the machine (``window.samples``)."""
    phases: tuple[str, ...] = ()
    """For a rule of time: the rows of the workers' timelines that it is shown, by name (``window.spans``)."""
    operators: bool = False
    """For a rule of time: whether it is shown what operators took in detailed windows (``window.operators``)."""
    facts: bool = False
    """For a rule of time: whether it looks at what workers and nodes say of themselves (``window.facts``)."""
    runs: tuple[str, ...] = ()
    """Other runs, by name or path, whose readings of the same tensors at the same steps the rule compares with."""

    @classmethod
    def of(cls, collection: str, *statistics: str, history: int | None = 0) -> Needs:
        """The usual need: some statistics of one collection."""
        return cls((TensorNeed(collection, statistics=statistics, history=history),))
