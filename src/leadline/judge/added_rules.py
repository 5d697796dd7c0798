"""Rules that were added to a run while it was running, by control requests that stay in the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from leadline.records.manifest import Manifest, RuleSpec
from leadline.records.request import REFUSED, RULE, Acknowledgement, Request
from leadline.store.control import RequestReader, read_acknowledgements, read_requests, write_acknowledgement

JUDGE: Final = "judge"
"""The worker name in the judge's acknowledgements."""

Add = Callable[[Sequence[RuleSpec]], None]


def rules_of(run: str, manifest: Manifest) -> tuple[RuleSpec, ...]:
    """Return the rules of a run: those of its manifest, then those that were added while it was running.

    Of two rules with the same name the first one counts.
    """
    rules = {spec.alias: spec for spec in manifest.rules}
    for request in read_requests(run):
        for spec in _specs(request) or ():
            rules.setdefault(spec.alias, spec)
    return tuple(rules.values())


class AddedRules:
    """The requests for more rules that reach the judge of a running job.

    Args:
        known: Returns the names of the rules that are evaluated already.
        add: Called with new rules.
    """

    def __init__(self, run: str, known: Callable[[], Collection[str]], add: Add) -> None:
        self._run, self._known, self._add = run, known, add
        self._inbox = RequestReader(run)
        answered = {answer.id for answer in read_acknowledgements(run) if answer.worker == JUDGE}
        self._inbox.skip(answered)
        self._initial = frozenset(known())

    def take(self, step: int) -> None:
        """Take the requests that arrived, and acknowledge them.

        Args:
            step: The last step that was evaluated.
        """
        for request in self._inbox.take():
            if request.kind == RULE:
                self._answer(request, self._take(request), step)

    def _take(self, request: Request) -> str:
        specs = _specs(request)
        if specs is None:
            return f"{REFUSED}it cannot be read"
        new = [spec for spec in specs if spec.alias not in self._known()]
        if new:
            self._add(new)
        elif not {spec.alias for spec in specs} <= self._initial:
            return f"{REFUSED}a rule of that name exists already"
        return "taken"

    def _answer(self, request: Request, outcome: str, step: int) -> None:
        try:
            write_acknowledgement(self._run, Acknowledgement(request.id, JUDGE, step, time.time_ns(), outcome))
        except OSError:
            return  # a full disk must not keep the rule from being evaluated


def _specs(request: Request) -> tuple[RuleSpec, ...] | None:
    """Return the rules of a request; None: it is invalid."""
    if request.kind != RULE:
        return ()
    try:
        specs = tuple(RuleSpec(**rule) for rule in request.parameters.get("rules", ()))
    except TypeError:
        return None
    is_valid = all(isinstance(spec.alias, str) and spec.alias.strip(". /") and "/" not in spec.alias for spec in specs)
    return specs if is_valid else None
