"""What a worker captures, in a few words for its document."""

from __future__ import annotations

from typing import Final

from leadline.records.names import Family
from leadline.records.plan import CapturePlan, may_select_family

_KINDS: Final[dict[Family, dict[str, str]]] = {
    "network": {"losses": "losses", "gradients": "statistics", "weights": "statistics"},
    "trees": {
        "losses": "losses",
        "feature_importance": "feature importance",
        "predictions": "predictions",
        "average_shap": "SHAP",
        "full_shap": "SHAP",
        "trees": "trees",
    },
    "arrays": {"losses": "losses", "default": "statistics"},
}
"""The label of each collection in the description of a plan."""
_RAW: Final = "raw tensors"
_ORDER: Final = ("losses", "statistics", "feature importance", "predictions", "SHAP", "trees", _RAW)


def described_plan(plan: CapturePlan, families: frozenset[Family]) -> str:
    """Return the capture plan in a few words: ``losses every step, statistics every 50``.

    Args:
        families: The families of the frameworks that train.
    """
    kinds_by_collection = {collection: kind for family in families for collection, kind in _KINDS[family].items()}
    intervals: dict[str, list[int]] = {}
    for item in plan.items:
        is_permanent = item.schedule.every is not None and item.schedule.end is None
        if not is_permanent or item.collection not in kinds_by_collection or not may_select_family(item, families):
            continue
        kind = _RAW if item.raw else kinds_by_collection[item.collection]
        intervals.setdefault(kind, []).append(item.schedule.every or 1)
    step = "round" if families == {"trees"} else "step"
    kinds = sorted(intervals, key=_ORDER.index)
    parts = [f"{kind} every {_format_interval(min(intervals[kind]), step)}" for kind in kinds]
    return ", ".join(parts) or "only what the rules need"


def _format_interval(every: int, step: str) -> str:
    return step if every == 1 else str(every)
