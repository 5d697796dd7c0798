"""The rule nlp_sequence_ratio."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import ClassVar, Final

from leadline.errors import ConfigurationError
from leadline.records.formatting import exact
from leadline.records.formatting import share as percent
from leadline.rules import Advice, Fired, Needs, TensorNeed, TensorReading, TensorRule, Window
from leadline.rules.bounds import Percent
from leadline.rules.messages import fired
from leadline.rules.selection import check_selection, format_number

_DEFAULT = (".*embedding0_input_0",)
_EMBEDDINGS = ("embedding_input", "embeddingbag_input")
_ADVICE: Final = Advice(
    "{similar_lengths}, or padding only to the longest of the batch; usually every sequence is padded to the model's "
    "maximum"
)


class NLPSequenceRatio(TensorRule[tuple[TensorReading, int, float]], frozen=True, kw_only=True):
    """Fires when more than a given share of the input is one token, such as padding.

    Why it matters:
        Every padding token costs as much computation as a word and teaches nothing: half of the cost of a batch
        that is half padding is wasted, and statistics over it (a mean without a mask, batch normalization) are of
        padding.
    How it decides:
        Fires if ``elements equal to token / elements * 100 > percent`` for any pair of ``token_values`` and
        ``token_thresholds_percent``, at each captured step, for each tensor separately.
    Not a number:
        Tokens are whole numbers. Empty tensors are not evaluated.
    Blind spots:
        The padding token depends on the tokenizer: 0 is a guess. Packed sequences have no padding. A model that
        takes embeddings as its input has no tokens to evaluate.
    Args:
        tensor_regex: Regular expressions (``re.search``) for inputs with tokens; with the default the input of the
            first embedding is evaluated as well.
        token_values: Tokens, whole numbers.
        token_thresholds_percent: For each token the largest share that is not a finding, in percent, >= 0 and <=
            100.
    Source:
        SageMaker developer guide, "NLPSequenceRatio".
    """

    data: ClassVar[str] = "inputs"
    untested: ClassVar[str] = "no input of an embedding had elements at this step"

    tensor_regex: tuple[str, ...] = _DEFAULT
    token_values: tuple[int, ...] = (0,)
    token_thresholds_percent: tuple[Percent, ...] = (50.0,)

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
        named = tuple(TensorNeed(regex=pattern, statistics=statistics) for pattern in self.tensor_regex)
        if self.tensor_regex != _DEFAULT:
            return Needs(named)
        first = tuple(
            TensorNeed(collection, regex="_input_0$", statistics=statistics, is_optional=True)
            for collection in _EMBEDDINGS
        )
        return Needs((*named, *first))

    def find(self, window: Window) -> list[tuple[TensorReading, int, float]] | None:
        is_judged = False
        bad = []
        for token, threshold in self._thresholds.items():
            for reading in self._judged(window.readings(_statistic(token))):
                is_judged = True
                if reading.value * 100.0 > threshold:
                    bad.append((reading, token, threshold))
        return bad if is_judged else None

    def _judged(self, readings: list[TensorReading]) -> list[TensorReading]:
        """Return the readings whose names match, and the first of the others of each worker."""
        named = [
            reading for reading in readings if any(re.search(pattern, reading.tensor) for pattern in self.tensor_regex)
        ]
        first: dict[str, TensorReading] = {}
        for reading in readings:
            first.setdefault(reading.worker, reading)
        chosen = dict.fromkeys((*named, *first.values()))
        return [reading for reading in chosen if not math.isnan(reading.value)]

    def finding(self, bad: Sequence[tuple[TensorReading, int, float]]) -> Fired:
        worst, token, threshold = max(bad, key=lambda reading: reading[0].value)
        return fired(
            f"{worst.tensor}: {percent(worst.value)} of {worst.elements:,} tokens are {token}, more "
            f"than {exact(threshold)} %",
            worst.tensor,
            *(reading.tensor for reading, _, _ in bad),
            advice=_ADVICE,
            evidence={"token": token, "percent": worst.value * 100.0, "threshold": threshold, "tokens": worst.elements},
            noun="tensor",
            worker=worst.worker,
        )


def _statistic(token: int) -> str:
    return f"equals_{format_number(token)}"
