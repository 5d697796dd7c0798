"""The document of a worker, made from the parts of its session."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from leadline.records.documents import DisabledCapture, ThrottledItem, WatchedModel, WorkerDocument
from leadline.records.manifest import Manifest
from leadline.records.names import Family
from leadline.records.plan import may_select_family

if TYPE_CHECKING:
    from leadline.frameworks.installed import Frameworks
    from leadline.training.profiler.requests import ProfileRequests
    from leadline.training.recorder.step_recorder import StepRecorder
    from leadline.training.step_context import StepContext

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


class WorkerDocumentBuilder:
    """Builds the document from the parts of a session.

    Attributes:
        disabled: Step and error at which capture was disabled; None while it is enabled.
    """

    def __init__(
        self,
        context: StepContext,
        manifest: Manifest,
        node: str,
        *,
        recorder: StepRecorder,
        frameworks: Frameworks,
        profiling: ProfileRequests,
    ) -> None:
        self.disabled: DisabledCapture | None = None
        self._context, self._manifest, self._node = context, manifest, node
        self._recorder, self._frameworks, self._profiling = recorder, frameworks, profiling
        self._pid, self._started_ns = os.getpid(), time.time_ns()

    def build(self) -> WorkerDocument:
        """Return the document, without what the writer adds."""
        recorder, models = self._recorder, self._recorder.watched_models
        return WorkerDocument(
            worker=self._context.worker,
            node=self._node,
            pid=self._pid,
            started_ns=self._started_ns,
            framework=self._frameworks.label(),
            models=tuple(WatchedModel(model, count) for model, _, count in models),
            optimizers=tuple(optimizer for _, optimizer, _ in models if optimizer),
            watching=describe_plan(self._manifest, self._frameworks.training_families),
            steps=dict(recorder.clock.finished),
            step=recorder.clock.step - 1,
            losses=dict(recorder.losses),
            time_ns=time.time_ns(),
            own_ns=recorder.cost.own_ns,
            loop_ns=recorder.cost.loop_ns,
            thinned=tuple(map(ThrottledItem.from_dict, recorder.budget.throttled.values())),
            off=self.disabled,
            notes=tuple(self._context.notes),
            facts=dict(recorder.timeline.facts),
            profiles=dict(self._profiling.outcomes),
            **self._frameworks.describe(),
        )


def describe_plan(manifest: Manifest, families: Iterable[Family] = ("network",)) -> str:
    """Describe the capture plan in a few words: ``losses every step, statistics every 50``.

    Args:
        families: The families of the frameworks that train.
    """
    families = frozenset(families)
    kinds_by_collection = {collection: kind for family in families for collection, kind in _KINDS[family].items()}
    intervals: dict[str, list[int]] = {}
    for item in manifest.plan.items:
        is_permanent = item.schedule.every is not None and item.schedule.end is None
        if not is_permanent or item.collection not in kinds_by_collection or not may_select_family(item, families):
            continue
        kind = _RAW if item.raw else kinds_by_collection[item.collection]
        intervals.setdefault(kind, []).append(item.schedule.every or 1)
    step = "round" if families == {"trees"} else "step"
    kinds = sorted(intervals, key=_ORDER.index)
    parts = [f"{kind} every {_format_interval(min(intervals[kind]), step)}" for kind in kinds]
    return ", ".join(parts) or "only what the rules need"


def worker_name(rank: int | None) -> str:
    """Return a name that no other process of the run has: rank, restarts of the launcher, pid."""
    number = str(rank) if rank is not None else os.environ.get("RANK", "0")
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    suffix = f"-r{restarts}" if restarts.isdecimal() and int(restarts) else ""
    return f"rank{number if number.isdecimal() else 0}{suffix}-{os.getpid()}"


def _format_interval(every: int, step: str) -> str:
    return step if every == 1 else str(every)
