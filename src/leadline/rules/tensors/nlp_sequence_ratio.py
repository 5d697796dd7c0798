"""The rule nlp_sequence_ratio."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated

import msgspec

from leadline.errors import ConfigurationError
from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more, check_selection, spoken_number

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading, Window

_DEFAULT = (".*embedding0_input_0",)
_EMBEDDINGS = ("embedding_input", "embeddingbag_input")
_Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]


class NLPSequenceRatio(Rule, frozen=True, kw_only=True):
    """Fires when more than a given share of the input is one token, such as padding.

    Why it matters:
        Every padding token is computed like a word and teaches nothing: a batch that is half padding is half paid
        for nothing, and statistics over it (a mean without a mask, batch normalization) are of padding.
    How it decides:
        ``elements equal to token / elements * 100 > percent`` for any of the pairs of ``token_values`` and
        ``token_thresholds_percent``, at each captured step, for each tensor by itself.
    Not a number:
        Tokens are whole numbers. Of an empty tensor there is no share: it is not judged.
    Blind spots:
        Which number pads is the tokenizer's choice: 0 is a guess. Sequences packed without padding have none. A
        model that takes embeddings as its input has no tokens to look at.
    Args:
        tensor_regex: Regular expressions (``re.search``) for inputs that hold tokens; with the default the input of
            the first embedding is judged as well.
        token_values: Tokens, whole numbers.
        token_thresholds_percent: For each of them, the largest share that is no finding, in percent, >= 0 and <= 100.
    Source:
        SageMaker developer guide, "NLPSequenceRatio".
    """

    tensor_regex: tuple[str, ...] = _DEFAULT
    token_values: tuple[int, ...] = (0,)
    token_thresholds_percent: tuple[_Percent, ...] = (50.0,)

    def check(self) -> None:
        check_selection(self.name, None, self.tensor_regex)
        if len(self.token_values) != len(self.token_thresholds_percent):
            raise ConfigurationError(
                f"{self.name}: token_values has {len(self.token_values)} numbers and token_thresholds_percent "
                f"{len(self.token_thresholds_percent)}; give a percentage for each token"
            )

    @property
    def _thresholds(self) -> dict[int, float]:
        return dict(zip(self.token_values, self.token_thresholds_percent, strict=True))

    def needs(self) -> Needs:
        statistics = tuple(_statistic(token) for token in self._thresholds)
        named = tuple(TensorNeed(regex=each, statistics=statistics) for each in self.tensor_regex)
        if self.tensor_regex != _DEFAULT:
            return Needs(named)
        first = tuple(TensorNeed(each, regex="_input_0$", statistics=statistics) for each in _EMBEDDINGS)
        return Needs((*named, *first))

    def evaluate(self, window: Window) -> Verdict:
        judged = False
        bad = []
        for token, threshold in self._thresholds.items():
            for each in self._judged(window.readings(_statistic(token))):
                judged = True
                if each.value * 100.0 > threshold:
                    bad.append((each, token, threshold))
        if bad:
            return self._fired(bad)
        if not judged:
            return Undecided("no input of an embedding had elements at this step")
        return Undecided("part of the inputs at this step was lost") if window.is_thinned else Clear()

    def _judged(self, readings: list[TensorReading]) -> list[TensorReading]:
        """Those whose names match, and of the others each worker's first."""
        named = [each for each in readings if any(re.search(pattern, each.tensor) for pattern in self.tensor_regex)]
        first: dict[str, TensorReading] = {}
        for each in readings:
            first.setdefault(each.worker, each)
        chosen = dict.fromkeys((*named, *first.values()))
        return [each for each in chosen if not math.isnan(each.value)]

    def _fired(self, bad: list[tuple[TensorReading, int, float]]) -> Fired:
        worst, token, threshold = max(bad, key=lambda each: each[0].value)
        tensors = tuple(dict.fromkeys((worst.tensor, *(each.tensor for each, _, _ in bad))))
        return Fired(
            f"{worst.tensor}: {worst.value:.1%} of {worst.elements:,} tokens are {token}, more than {threshold:g} %"
            + and_more(len(tensors) - 1),
            tensors=tensors,
            evidence={"token": token, "percent": worst.value * 100.0, "threshold": threshold, "tokens": worst.elements},
            suggestion="batches of sequences of like length (group_by_length), or padding to the longest of the batch "
            "only; usually every sequence is padded to the model's maximum",
            worker=worst.worker,
        )


def _statistic(token: int) -> str:
    return f"equals_{spoken_number(token)}"
