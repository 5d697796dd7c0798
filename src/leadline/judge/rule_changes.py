"""Rules that were added to a run or removed from it while it was running, by control requests that stay in the run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from leadline.records.manifest import Manifest, RuleSpec
from leadline.records.request import AddRules, Answer, RemoveRules, UnreadableRequest
from leadline.store.control import RequestReader, acknowledge, read_acknowledgements, read_requests

JUDGE: Final = "judge"
"""The worker name in the judge's acknowledgements."""
NOT_TAKEN: Final = "a running job takes only built-in rules and those with whose code it was started"
"""Why a rule is not added."""
_UNREADABLE: Final = Answer("refused", "it cannot be read")

Add = Callable[[Sequence[RuleSpec]], None]


def rules_of(run: str, manifest: Manifest) -> tuple[RuleSpec, ...]:
    """Return the rules of a run: those of its manifest, then those that were added while it was running.

    Of two rules with the same name the first one counts. A rule that was removed is not evaluated again.
    """
    rules = {spec.alias: spec for spec in manifest.rules}
    for request in read_requests(run):
        if isinstance(request, AddRules) and _has_valid_names(request):
            for spec in request.rules:
                rules.setdefault(spec.alias, spec)
    removed = removed_rules(run)
    return tuple(spec for spec in rules.values() if spec.alias not in removed)


def removed_rules(run: str) -> frozenset[str]:
    """Return the names of the rules that were removed while the run was running."""
    requests = [request for request in read_requests(run) if isinstance(request, RemoveRules)]
    return frozenset(name for request in requests for name in request.rules)


class RuleChanges:
    """The requests for more or fewer rules that reach the judge of a running job.

    Args:
        known: Returns the names of the rules of the run.
        add: Called with new rules.
        remove: Called with the names of rules that are not to be evaluated any more.
        takes: Returns whether a rule may be evaluated.
    """

    def __init__(
        self,
        run: str,
        known: Callable[[], Collection[str]],
        add: Add,
        remove: Callable[[Sequence[str]], None],
        takes: Callable[[RuleSpec], bool],
    ) -> None:
        self._run = run
        self._known = known
        self._add = add
        self._remove = remove
        self._takes = takes
        self._inbox = RequestReader(run)
        answers = read_acknowledgements(run)
        self._inbox.skip(name for name in answers if any(answer.worker == JUDGE for answer in answers[name]))
        self._initial = frozenset(known())

    def take(self, step: int) -> None:
        """Take the requests that arrived, and acknowledge them.

        Args:
            step: The last step that was evaluated.
        """
        for request in self._inbox.take():
            if isinstance(request, AddRules):
                acknowledge(self._run, request.id, JUDGE, step, self._take(request))
            elif isinstance(request, RemoveRules):
                self._remove([name for name in request.rules if name in self._known()])
                acknowledge(self._run, request.id, JUDGE, step, Answer())
            elif isinstance(request, UnreadableRequest) and request.named in (AddRules.kind, RemoveRules.kind):
                acknowledge(self._run, request.id, JUDGE, step, _UNREADABLE)

    def _take(self, request: AddRules) -> Answer:
        if not _has_valid_names(request):
            return _UNREADABLE
        foreign = next((spec.rule for spec in request.rules if not self._takes(spec)), None)
        if foreign is not None:
            return Answer("refused", f"{foreign}: {NOT_TAKEN}")
        new = [spec for spec in request.rules if spec.alias not in self._known()]
        if new:
            self._add(new)
        elif not {spec.alias for spec in request.rules} <= self._initial:
            return Answer("refused", "a rule of that name exists already")
        return Answer()


def _has_valid_names(request: AddRules) -> bool:
    """Return whether all aliases can be names of folders."""
    aliases = [spec.alias for spec in request.rules]
    return all(isinstance(alias, str) and alias.strip(". /") and "/" not in alias for alias in aliases)
