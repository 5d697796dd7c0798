"""Findings made from verdicts: episodes that open, continue and close."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, replace
from typing import Final

from leadline.reader.window import Window
from leadline.records.finding import MAX_NAMES, MAX_SHOWN_TENSORS, Finding
from leadline.records.json_object import JsonObject
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict

_SINCE: Final = re.compile(r"since step (\d+(?:,\d{3})*)")
Event = JsonObject
"""A line of ``findings.jsonl``."""


class Episodes:
    """The findings of one rule.

    An episode belongs to a mode. It continues while the rule fires, and closes at a clear step at which one of its
    tensors was captured: a step that has only the loss does not say that a gradient has recovered.
    """

    def __init__(self, rule: str, *, passes: bool = False) -> None:
        """
        Args:
            passes: See ``Rule.passes``.
        """
        self.count = 0
        self._rule, self._room, self._passes = rule, MAX_NAMES, passes
        self._open: dict[str, Finding] = {}
        self._named: dict[str, frozenset[str]] = {}

    @property
    def is_open(self) -> bool:
        """Whether one of them is open."""
        return bool(self._open)

    def apply(
        self,
        verdict: Verdict,
        window: Window,
        seen: Callable[[], Collection[str]] | None,
        *,
        training: int = 1,
        phrased: Callable[[Fired], Fired] = lambda fired: fired,
    ) -> list[Event]:
        """Return the findings that the verdict on a window opens or closes.

        Args:
            seen: Returns the captured tensors; None: all that matter (a scan covers everything).
            training: The number of the training that the verdict is about.
            phrased: Words the verdict that opens a finding; the later ones of an episode are not worded.
        """
        mode = window.mode
        match verdict:
            case Fired() if mode in self._open:
                return self._continue(verdict, window)
            case Fired():
                return self._begin(phrased(verdict), window, training)
            case Clear() if mode in self._open and self._can_close(mode, seen):
                return [_event("closed", replace(_closed(self._open.pop(mode)), has_passed=self._passes))]
            case Clear() | Undecided() | NotApplicable():
                return []

    def end(self) -> list[Event]:
        """Close what is open: the training that it is about has ended."""
        findings, self._open = self._open, {}
        return [_event("closed", _closed(finding)) for finding in findings.values()]

    def _can_close(self, mode: str, seen: Callable[[], Collection[str]] | None) -> bool:
        named = self._named[mode]
        return seen is None or not named or not named.isdisjoint(seen())

    def _continue(self, fired: Fired, window: Window) -> list[Event]:
        mode = window.mode
        open_finding = self._open[mode]
        self._named[mode] |= frozenset(fired.tensors)
        self._open[mode] = replace(
            open_finding,
            last_step=window.step,
            last_global_step=window.global_step,
            count=open_finding.count + 1,
        )
        return []

    def _begin(self, fired: Fired, window: Window, training: int) -> list[Event]:
        mode = window.mode
        self.count += 1
        evidence = dict(fired.evidence) if mode == "train" else {**fired.evidence, "mode": mode}
        finding = Finding(
            self.count,
            self._rule,
            window.step,
            window.step,
            True,
            window.time_ns,
            fired.message,
            fired.suggestion,
            self._names(fired.tensors),
            len(fired.tensors),
            fired.worker,
            evidence,
            global_step=window.global_step,
            last_global_step=window.global_step,
            since_step=fired.since_step,
            training=training,
        )
        self._open[mode], self._named[mode] = finding, frozenset(fired.tensors)
        return [_event("opened", finding)]

    def _names(self, tensors: Sequence[str]) -> tuple[str, ...]:
        """Return the tensors that a finding names: all of them, while the findings of the rule do not name too many."""
        names = tuple(tensors if len(tensors) <= self._room else tensors[:MAX_SHOWN_TENSORS])
        self._room -= len(names)
        return names


def _closed(finding: Finding) -> Finding:
    """Return a finding that ends; a message that says since when it held says until when, too."""
    last = finding.last_step

    def until(since: re.Match[str]) -> str:
        return f"from step {since[1]} to {last:,}" if int(since[1].replace(",", "")) < last else since[0]

    return replace(finding, is_open=False, message=_SINCE.sub(until, finding.message))


def last_event(finding: Finding) -> Event:
    """Return the latest event of a finding."""
    return _event("opened" if finding.is_open else "closed", finding)


def _event(event: str, finding: Finding) -> Event:
    return {"event": event, **asdict(finding)}
