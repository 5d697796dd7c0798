"""Rules that a run was given while it ran: a control request each, which stays in the run as what it is judged by."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from leadline.records.manifest import Manifest, RuleSpec
from leadline.records.request import REFUSED, RULE, Acknowledgement, Request
from leadline.store.control import RequestReader, read_acknowledgements, read_requests, write_acknowledgement

JUDGE: Final = "judge"
"""Who answers."""

Add = Callable[[Sequence[RuleSpec]], None]


def rules_of(run: str, manifest: Manifest) -> tuple[RuleSpec, ...]:
    """The rules of a run: those that it began with, then those that it was given while it ran.

    Of two of one name the first counts.
    """
    found = {spec.alias: spec for spec in manifest.rules}
    for request in read_requests(run):
        for spec in _specs(request) or ():
            found.setdefault(spec.alias, spec)
    return tuple(found.values())


class AddedRules:
    """The requests for more rules, as they come to the judge of a job that runs.

    Args:
        known: Tells the names of the rules that judge already.
        add: Called with rules that are new.
    """

    def __init__(self, run: str, known: Callable[[], Collection[str]], add: Add) -> None:
        self._run, self._known, self._add = run, known, add
        self._inbox = RequestReader(run)
        answered = {each.id for each in read_acknowledgements(run) if each.worker == JUDGE}
        self._inbox.skip(answered)
        self._began_with = frozenset(known())

    def take(self, step: int) -> None:
        """Take up what came, and answer it.

        Args:
            step: The last that was judged.
        """
        for request in self._inbox.take():
            if request.kind == RULE:
                self._answer(request, self._take(request), step)

    def _take(self, request: Request) -> str:
        specs = _specs(request)
        if specs is None:
            return f"{REFUSED}it cannot be read"
        new = [each for each in specs if each.alias not in self._known()]
        if new:
            self._add(new)
        elif not {each.alias for each in specs} <= self._began_with:
            return f"{REFUSED}a rule of that name judges already"
        return "taken"

    def _answer(self, request: Request, outcome: str, step: int) -> None:
        try:
            write_acknowledgement(self._run, Acknowledgement(request.id, JUDGE, step, time.time_ns(), outcome))
        except OSError:
            return  # a full disk keeps no rule from judging


def _specs(request: Request) -> tuple[RuleSpec, ...] | None:
    """The rules that a request names; None: it is none that can be read."""
    if request.kind != RULE:
        return ()
    try:
        specs = tuple(RuleSpec(**each) for each in request.parameters.get("rules", ()))
    except TypeError:
        return None
    is_whole = all(isinstance(each.alias, str) and each.alias.strip(". /") and "/" not in each.alias for each in specs)
    return specs if is_whole else None
