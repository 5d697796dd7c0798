"""Advice of several findings of a run: what asks for the opposite of a severer finding's advice is withheld."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from leadline.records.documents import SummarizedRule
from leadline.records.names import OVERFITTING


class _Lever(NamedTuple):
    """Something that advice asks to move, and the words for either direction."""

    more: re.Pattern[str]
    less: re.Pattern[str]


def _lever(more: str, less: str) -> _Lever:
    return _Lever(re.compile(more, re.IGNORECASE), re.compile(less, re.IGNORECASE))


_RATE: Final = r"(?:learning[ _])?rate\b"
_LEVERS: Final = {
    "learning rate": _lever(
        rf"(?:higher|larger|raised?|increased?) (?:the |a )?{_RATE}|{_RATE} (?:that is )?(?:higher|larger)",
        rf"(?:lower|smaller|reduced?|decreased?|half|tenth of|third of) (?:the |a )?{_RATE}"
        rf"|{_RATE} (?:that is )?(?:lower|smaller)",
    ),
    "batch": _lever(r"larger batch|batch (?:twice as large|size above)", r"smaller batch|batch half as large"),
    "length": _lever(r"train(?:ing)? for longer|more epochs|more rounds", r"early stopping|fewer (?:epochs|rounds)"),
    "regularization": _lever(r"more regularization|more dropout", r"less regularization|less dropout"),
    "clipping": _lever(r"\bclip gradients|clip_grad_norm_ to", r"without clipping|a (?:larger|higher) limit"),
    "workers": _lever(r"more num_workers", r"fewer num_workers|num_workers=0"),
    "trees": _lever(r"larger (?:max_depth|num_leaves)", r"smaller (?:max_depth|num_leaves)"),
    "leaves": _lever(r"larger (?:min_child_weight|min_data_in_leaf)", r"smaller (?:min_child_weight|min_data_in_leaf)"),
}


def directions(suggestion: str) -> dict[str, int]:
    """Return what the first part of a suggestion asks to move, up (1) or down (-1); what it asks both of is left out.

    The usual cause behind ``; usually`` is no advice.
    """
    text = suggestion.partition("; usually")[0]
    found = {name: (bool(lever.more.search(text)), bool(lever.less.search(text))) for name, lever in _LEVERS.items()}
    return {name: 1 if more else -1 for name, (more, less) in found.items() if more != less}


@dataclass(frozen=True, slots=True)
class StandingAdvice:
    """What the findings of a run ask for, each from the severest that asks for it."""

    by_lever: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The direction, and the rule."""

    @classmethod
    def of(cls, ranked: Iterable[SummarizedRule]) -> StandingAdvice:
        """Collect the advice of rules that fired, the worst first, except what follows from other findings."""
        by_lever: dict[str, tuple[int, str]] = {}
        for rule in ranked:
            if rule.explained_by is None and rule.suggestion:
                standing = cls(by_lever)
                if not standing.opponent(rule.suggestion):
                    for lever, direction in directions(rule.suggestion).items():
                        by_lever.setdefault(lever, (direction, rule.name))
        return cls(by_lever)

    def opponent(self, suggestion: str) -> str:
        """Return the rule whose advice a suggestion contradicts; empty: none."""
        for lever, direction in directions(suggestion).items():
            standing, rule = self.by_lever.get(lever, (direction, ""))
            if standing != direction:
                return rule
        return ""

    def remarks(
        self, products: Iterable[Mapping[str, Any]], key: str, fired: Iterable[SummarizedRule]
    ) -> tuple[str, ...]:
        """Return the remarks that rules have collected under a key, each once.

        Those that contradict the advice, or say what a finding says, are left out.
        """
        is_overfitting = any((rule.message or "").startswith(OVERFITTING) for rule in fired)
        remarks = dict.fromkeys(str(remark) for product in products for remark in product.get(key, ()))
        kept = (remark for remark in remarks if not (is_overfitting and OVERFITTING in remark))
        return tuple(remark for remark in kept if not self.opponent(remark))

    def agreeing(self, suggestion: str) -> str:
        """Return a suggestion, or that the advice goes first which it contradicts."""
        opponent = self.opponent(suggestion)
        return (
            f"the advice of {opponent} first; this finding alone would ask for the opposite" if opponent else suggestion
        )
