"""The level that a predictor without input reaches in a metric, from the distribution of the labels."""

from __future__ import annotations

import math
import re
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from leadline.reader.window import Window

LABEL_STATISTICS: Final = ("variance", "class_counts")
"""The statistics of labels that ``note_labels`` reads."""
_UP: Final = re.compile(
    r"acc|auc|auroc|f1|f_?beta|precision|recall|sensitivity|specificity|dice|iou|jaccard|bleu|rouge|meteor|mcc|kappa|"
    r"psnr|ssim|reward|return|score|r2(?![0-9])|hit|ndcg|map(?![a-z])|top_?\d",
    re.IGNORECASE,
)
_DOWN: Final = re.compile(
    r"loss|error|err(?![a-z])|perplexity|ppl|(?<![a-z])(mae|mse|rmse|mape|wer|cer|fid|nll|bpc)(?![a-z])", re.IGNORECASE
)
_ENTROPY: Final = re.compile(r"cross_?entropy(?!.*logits)|nll_?loss", re.IGNORECASE)
_SQUARES: Final = re.compile(r"mse_?loss", re.IGNORECASE)


@dataclass(slots=True)
class LabelDistribution:
    """The distribution of a worker's labels."""

    counts: dict[int, float] = field(default_factory=dict)
    """The number of labels by class."""
    variances: list[float] = field(default_factory=list)
    """The variance of the labels of each batch."""


def note_labels(known: MutableMapping[str, LabelDistribution], window: Window) -> None:
    """Add the labels of a step to those known of each worker."""
    for reading in window.readings("variance"):
        if math.isfinite(reading.value):
            known.setdefault(reading.worker, LabelDistribution()).variances.append(reading.value)
    for vector in window.vectors("class_counts"):
        counts = known.setdefault(vector.worker, LabelDistribution()).counts
        for label, count in enumerate(vector.values.tolist()):
            if count:
                counts[label] = counts.get(label, 0.0) + count


def is_upward(name: str) -> bool | None:
    """Return whether higher is better; None if the name does not tell. If both match (``score_error``): False."""
    if _DOWN.search(name) or _ENTROPY.search(name):
        return False
    return True if _UP.search(name) else None


def trivial_level(name: str, labels: LabelDistribution) -> tuple[float, str] | None:
    """Return the value that a predictor without input would reach, and its description; None: not known."""
    total = sum(labels.counts.values())
    if total and _ENTROPY.search(name):
        shares = [count / total for count in labels.counts.values()]
        return -sum(share * math.log(share) for share in shares), "always guessing by the labels' shares"
    if total and "acc" in name.lower():
        return max(labels.counts.values()) / total, "always naming the most frequent label"
    if labels.variances and _SQUARES.search(name):
        return sum(labels.variances) / len(labels.variances), "always naming the labels' mean"
    return None
