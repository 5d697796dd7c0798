"""What the name of a metric tells: whether higher is better, and what kind of number it is."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

PRINTED: Final = "printed"
"""Collection of the numbers that a script prints or writes to a table, beside ``metrics`` or ``scalars``."""

LOGGED: Final = "logged"
"""Collection of the losses of a log, beside ``losses``, in a training that the log shows to be no game or search."""

_UP: Final = re.compile(
    r"acc|auc|auroc|f1|f_?beta|precision|recall|sensitivity|specificity|dice|iou|jaccard|bleu|rouge|meteor|mcc|kappa|"
    r"psnr|ssim|reward|return|score|r2(?![0-9])|hit|ndcg|map(?![a-z])|top_?\d",
    re.IGNORECASE,
)
_DOWN: Final = re.compile(
    r"loss|error|err(?![a-z])|perplexity|ppl|(?<![a-z])(mae|mse|rmse|mape|wer|cer|fid|nll|bpc|poisson)(?![a-z])",
    re.IGNORECASE,
)
BINARY_ENTROPY: Final = re.compile(r"binary_?cross_?entropy|bce(with_?logits)?_?loss", re.IGNORECASE)
BOOSTED: Final = re.compile(r"-(?P<metric>[a-z_0-9-]+?)(?:@[\d.]+)?$")
"""A metric of XGBoost or LightGBM in the name of its values: ``<set>-<metric>``."""
_BOOSTED_DOWN: Final = re.compile(
    r"l[12]|l2_root|rmsle|mphe|quantile|fair|huber|poisson|gamma|gamma[_-]deviance|tweedie|kullback_leibler|"
    r"[a-z]+-nloglik"
)
ENTROPY: Final = re.compile(
    r"cross_?entropy(?!.*logits)|(?<!poisson)(?<!poisson_)(?<!gaussian)(?<!gaussian_)nll_?loss", re.IGNORECASE
)
"""A loss of classes: of a predictor without input it is the entropy of their shares; not so of counts and values."""

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_METRICS: Final = re.compile(
    r"acc|accuracy|auc|auroc|auprc|f|f1|fbeta|precision|recall|sensitivity|specificity|dice|iou|miou|jaccard"
    r"|bleu|rouge|rougel|meteor|mcc|kappa|psnr|ssim|reward|rewards|return|returns|r|ndcg|map|hit|hits|loss"
    r"|error|err|perplexity|ppl|mae|mse|rmse|mape|wer|cer|fid|nll|bpc"
)
_QUALIFIERS: Final = re.compile(
    r"train|training|val|valid|validation|test|testing|eval|evaluation|dev|set|data|dataset|avg|average|mean"
    r"|overall|macro|micro|weighted|balanced|top|score|rate|coefficient|index|word|character|char|pixel|token"
    r"|absolute|squared|square|root|classification|prediction|roc|log|bce|ce|negative|likelihood"
    r"|final|current|epoch|episode|the|of|on|in|at|is|for|model|network"
)
_BOOKKEEPING: Final = re.compile(
    r"epoch|epochs|step|steps|iter|iters|iteration|iterations|batch|batches|lr|learning|momentum|time|runtime|eta|flos"
    r"|elapsed|sec|secs|second|seconds|ms|min|minutes|speed|throughput|it|progress|seed|device|cuda|gpu|cpu"
    r"|rank|worker|workers|sample|samples|size|params|parameters|memory|mem|gb|mb|version|port|pid|line|id|fold"
    r"|class|layer"
)
_SYNONYMS: Final = {"acc": "accuracy", "err": "error", "ppl": "perplexity"}
_MEANINGLESS: Final = re.compile(r"avg|average|mean|overall|the|of|on|in|at|is|for|set|data|dataset|score|epoch")
_ROLES: Final = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "test", "testing", "eval", "evaluation", "dev"), "validation"),
}
_AVERAGED: Final = "ema"
_LOSSES: Final = frozenset({"loss", "nll", "bce"})
_CROSS_ENTROPY: Final = re.compile(r"cross[ _-]?entropy", re.IGNORECASE)

NameKind = Literal["metric", "bookkeeping", "other"]


def is_upward(name: str) -> bool | None:
    """Return whether higher is better; None if the name does not tell. If both match (``score_error``): False."""
    boosted = BOOSTED.search(name)
    if boosted is not None and _BOOSTED_DOWN.fullmatch(boosted["metric"]):
        return False
    if _DOWN.search(name) or ENTROPY.search(name) or BINARY_ENTROPY.search(name):
        return False
    return True if _UP.search(name) else None


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case: ``val``, ``acc``, ``1`` of ``valAcc@1``."""
    return tuple(word.lower() for word in _WORD.findall(name))


@lru_cache(maxsize=512)
def kind_of(name: str) -> NameKind:
    """Return whether every word of a name belongs to a metric with a direction, or one to what is no result.

    Stricter than ``is_upward``: names in a text were not chosen as names of metrics (``loss scale``).
    """
    words = words_of(_CROSS_ENTROPY.sub("nll", name))
    if _AVERAGED in words and any(_ROLES.get(word) == "validation" for word in words):
        words = tuple(word for word in words if word != _AVERAGED)  # of averaged weights; else a smoothed number
    of_metric = [_METRICS.fullmatch(word) is not None for word in words]
    is_known = all(
        is_metric or word.isdigit() or _QUALIFIERS.fullmatch(word)
        for is_metric, word in zip(of_metric, words, strict=True)
    )
    if is_known and any(of_metric) and is_upward(name) is not None:
        return "metric"
    return "bookkeeping" if any(map(_BOOKKEEPING.fullmatch, words)) else "other"


@lru_cache(maxsize=512)
def is_loss(name: str) -> bool:
    """Return whether a name is that of a loss."""
    return not _LOSSES.isdisjoint(words_of(_CROSS_ENTROPY.sub("nll", name)))


@lru_cache(maxsize=512)
def stem_of(name: str) -> tuple[str, frozenset[str]]:
    """Return ``train``, ``validation`` or "" as the name says, and its other words, so that ``acc`` is ``accuracy``."""
    words = words_of(name)
    role = next((_ROLES[word] for word in words if word in _ROLES), "")
    others = (word for word in words if word not in _ROLES and not _MEANINGLESS.fullmatch(word))
    return role, frozenset(_SYNONYMS.get(word, word) for word in others)


def printed_resolution(value: float) -> float:
    """Return the unit of the last decimal of a number as it was printed: 0.01 of 0.91, 1 of 12; 0 if it has twelve."""
    digits = f"{value:.12f}".rstrip("0").partition(".")[2]
    return 0.0 if len(digits) == 12 else 10.0 ** -len(digits)
