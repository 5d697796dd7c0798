"""Needs of a rule: the tensor statistics and system metrics that it evaluates."""

from __future__ import annotations

import re
from dataclasses import dataclass

from leadline.records.names import CHECKS


@dataclass(frozen=True, slots=True)
class TensorNeed:
    """Statistics of some tensors."""

    collection: str | None = None
    """The collection of the tensors; None: selected by ``regex`` only."""
    regex: str | None = None
    """A regular expression that a tensor's name must contain (``re.search``); with a collection, both must match."""
    statistics: tuple[str, ...] = ()
    """Names of statistics; for scalars the statistic ``value``."""
    raw: bool = False
    """Whether the raw tensors are needed."""
    modes: tuple[str, ...] = ()
    """The modes that are evaluated; empty: every mode that is captured anyway, and train is captured."""
    every: int | None = None
    """The interval in steps; None: the interval of the collection in the run's preset."""
    history: int | None = 0
    """Number of earlier readings of a tensor that the rule uses; None: all."""
    end: int | None = None
    """The step of the mode at which the need ends; None: never. Without ``every``, every step before it is needed."""
    is_optional: bool = False
    """Whether the rule can be clear without any of it; a rule is undecided until every other collection that it needs
    was captured."""

    @classmethod
    def of_checks(cls, *checks: str, end: int | None = None) -> TensorNeed:
        """Return the need of checks of the training loop (``<what>/<check>``), without which a rule can be clear."""
        names = f"({'|'.join(checks)})" if len(checks) > 1 else checks[0]
        return cls(CHECKS, regex=f"/{names}$", statistics=("value",), modes=("train",), end=end, is_optional=True)

    def selects(self, name: str, collections: tuple[str, ...]) -> bool:
        """Return whether a tensor of this name in these collections is needed."""
        if self.collection is None and self.regex is None:
            return False
        if self.collection not in (None, "all") and self.collection not in collections:
            return False
        return self.regex is None or re.search(self.regex, name) is not None


@dataclass(frozen=True, slots=True)
class MetricNeed:
    """A system metric."""

    kind: str
    """As in ``Channel``: ``cpu``, ``memory``, ``gpu`` …"""
    metric: str
    device: str | None = None
    """The device; None: all devices."""

    def selects(self, kind: str, device: str, metric: str) -> bool:
        """Return whether a channel is needed."""
        return kind == self.kind and metric == self.metric and self.device in (None, device)


@dataclass(frozen=True, slots=True)
class Needs:
    """Everything that a rule needs."""

    tensors: tuple[TensorNeed, ...] = ()
    """The rule is evaluated at each step at which one of these tensors was captured."""
    scan_seconds: float | None = None
    """For a time-based rule: the interval of its evaluations, counted from the run's start."""
    metrics: tuple[MetricNeed, ...] = ()
    """For a time-based rule: the system metrics that it reads (``window.samples``)."""
    phases: tuple[str, ...] = ()
    """For a time-based rule: the names of the timeline rows that it reads (``window.spans``)."""
    operators: bool = False
    """For a time-based rule: whether it reads the operator times of detailed windows (``window.operators``)."""
    facts: bool = False
    """For a time-based rule: whether it reads the documents of workers and nodes (``window.facts``)."""
    runs: tuple[str, ...] = ()
    """Other runs, by name or path, whose readings of the same tensors and steps the rule compares."""

    @classmethod
    def of(cls, collection: str, *statistics: str, history: int | None = 0) -> Needs:
        """Return the most common needs: statistics of one collection."""
        return cls((TensorNeed(collection, statistics=statistics, history=history),))
