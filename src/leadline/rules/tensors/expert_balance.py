"""The rule expert_balance."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.formatting import share as percent
from leadline.records.formatting import significant
from leadline.rules import Advice, Clear, Fired, Needs, NotApplicable, Rule, TensorNeed, Verdict, Window
from leadline.rules.bounds import Factor, PositiveInt
from leadline.rules.losses.class_counts import add_counts
from leadline.rules.messages import fired, too_few
from leadline.rules.selection import check_pattern

if TYPE_CHECKING:
    from leadline.rules.losses.class_counts import Counts

_EVERY: Final = 10
_OUTPUT: Final = re.compile(r"(.+)_output_(\d+)")
_ROUTERS: Final = r"(^|\.)(\w*router|gate|gating|gate_?(net|network|layer))_output_\d+$"
_START: Final = 100
"""A router finds its balance within the first steps."""
_OF_TOKENS: Final = 2
"""Dimensions of scores: tokens and experts."""
_CHOICES: Final = 20
"""Choices for each expert, below which one may get nothing by chance."""
_ADVICE: Final = Advice(
    "a loss that balances the experts (in Transformers output_router_logits=True, and router_aux_loss_coef above 0), "
    "or noise on the router; usually that loss is missing, is multiplied by 0, or does not depend on the router"
)
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Output:
    """One tensor that a router returned."""

    counts: Counts
    """How often each whole number occurs; of scores the place of the largest of each token."""
    are_chosen: bool
    """Whether these are whole numbers: the chosen experts."""
    shape: tuple[int, ...]

    @property
    def are_scores(self) -> bool:
        """Whether these are scores of several experts for each token."""
        return not self.are_chosen and len(self.shape) == _OF_TOKENS and self.shape[1] > 1


@dataclass(slots=True)
class _Router:
    """The choices of one router at its latest captures."""

    counts: deque[Counts] = field(default_factory=deque)
    experts: int = 0
    """The number of experts, as far as it is known."""

    def total(self) -> list[float]:
        """Return how often each expert was chosen."""
        total = None
        for counts in self.counts:
            total = add_counts(total, counts)
        chosen: list[float] = [] if total is None else total.tolist()
        return chosen + [0.0] * (self.experts - len(chosen))


class ExpertBalance(Rule, frozen=True, kw_only=True):
    """Fires when the router of a mixture of experts prefers one expert by far, or leaves many without a token.

    Why it matters:
        Experts that get nothing learn nothing: the model has the memory of all experts, and the ability of a few. With
        experts on several devices, all wait for the busiest.
    How it decides:
        Looks at what modules named ``gate`` or ``router`` return, every 10 steps: the integers, which are the chosen
        experts (Mixtral, Qwen); of a module that returns none, the largest of the numbers that it returns first for
        each token. Adds up the latest ``captures`` captures, from step 100 on, and fires if the most frequent expert
        has more than ``factor`` times its fair share of the choices, or if more than ``idle`` of the experts have
        none, both only with 20 choices for each expert. Undecided before there are as many captures.
    Not a number:
        NaN counts as the largest score of a token.
    Blind spots:
        Routers that are no module, have another name (see ``tensor_regex``), or return scores alone: only the first
        choice of each token is counted then, and scores of three dimensions are not. The number of experts is the size
        of the scores; where a router returns integers alone, it is one more than the largest so far. A gate that scales
        the features of a layer is taken for a router of as many experts. Compiled models are not seen. Nothing is known
        of the balance within a sequence.
    Args:
        tensor_regex: A regular expression (``re.search``) for the names of the outputs that are evaluated.
        captures: Captures that are added up, >= 1.
        factor: How many times its fair share the busiest expert may have, > 1.
        idle: The share of the experts that may have nothing, > 0 and < 1.
    Source:
        Ours; Shazeer et al., "Outrageously large neural networks", 2017.
    """

    explains: ClassVar[tuple[str, ...]] = ("unused_parameter",)

    tensor_regex: str = _ROUTERS
    captures: PositiveInt = 20
    factor: Factor = 4.0
    idle: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.25

    def check(self) -> None:
        check_pattern(self.name, "tensor_regex", self.tensor_regex)

    def needs(self) -> Needs:
        wanted = ("class_counts", "max")
        return Needs((TensorNeed("layers", self.tensor_regex, wanted, modes=("train",), every=_EVERY),))

    @property
    def least_observations(self) -> int:
        return self.captures

    def remember(self, memory: Any, window: Window) -> dict[_Key, _Router]:
        routers: dict[_Key, _Router] = memory or {}
        for key, outputs in _outputs(window).items():
            router = routers.setdefault(key, _Router())
            chosen = next((output for output in outputs if output.are_chosen), None)
            scores = [output for output in outputs if output.are_scores]
            if chosen is None and not scores:
                continue
            router.experts = max([router.experts, *(output.shape[1] for output in scores)])
            if window.step >= _START:
                counts = (chosen or scores[0]).counts
                router.counts.append(counts[: int(counts.nonzero()[0].max()) + 1])
                while len(router.counts) > self.captures:
                    router.counts.popleft()
        return routers

    def evaluate(self, window: Window) -> Verdict:
        routers: dict[_Key, _Router] = window.memory
        outputs = _outputs(window)
        here = {
            key: routers[key]
            for key, found in outputs.items()
            if any(router.are_chosen or router.are_scores for router in found)
        }
        if not here:
            return NotApplicable("no module that is called gate or router, and scores experts, was captured")
        fewest = min(len(router.counts) for router in here.values())
        if fewest < self.captures:
            return too_few(fewest, self.captures, f"captures from step {_START:,} on")
        bad = [(key, chosen) for key, router in here.items() if self._is_bad(chosen := router.total())]
        return self._fired(bad) if bad else Clear()

    def _is_bad(self, chosen: list[float]) -> bool:
        experts, choices = len(chosen), sum(chosen)
        if choices < _CHOICES * experts:
            return False
        return max(chosen) * experts > self.factor * choices or chosen.count(0) > self.idle * experts

    def _fired(self, bad: list[tuple[_Key, list[float]]]) -> Fired:
        (worker, router), chosen = max(bad, key=_share_of_busiest)
        busiest, experts = chosen.index(max(chosen)), len(chosen)
        share = chosen[busiest] / sum(chosen)
        return fired(
            f"{router}: expert {busiest} of {experts:,} has {percent(share)} of the choices, "
            f"{significant(share * experts)} times its fair share, and {chosen.count(0):,} have none, in "
            f"{self.captures:,} captures",
            *dict.fromkeys([router, *(name for (_, name), _ in bad)]),
            noun="router",
            advice=_ADVICE,
            evidence={"busiest": busiest, "share": share, "experts": experts, "without": chosen.count(0)},
            worker=worker,
        )


def _share_of_busiest(found: tuple[_Key, list[float]]) -> float:
    return max(found[1]) / sum(found[1])


def _outputs(window: Window) -> dict[_Key, list[_Output]]:
    """Return what each router returned, in order, by worker and module."""
    types = {(reading.worker, reading.tensor): reading.dtype for reading in window.readings("max")}
    found: dict[_Key, dict[int, _Output]] = {}
    for vector in window.vectors("class_counts"):
        match = _OUTPUT.fullmatch(vector.tensor)
        if match and vector.values.any():
            are_chosen = "int" in types.get((vector.worker, vector.tensor), "")
            output = _Output(vector.values, are_chosen, vector.shape)
            found.setdefault((vector.worker, match[1]), {})[int(match[2])] = output
    return {key: [outputs[place] for place in sorted(outputs)] for key, outputs in found.items()}
