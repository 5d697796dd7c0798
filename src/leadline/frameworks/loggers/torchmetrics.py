"""torchmetrics: what a metric's ``forward`` and ``compute`` give, under the name that the library itself would use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from types import FrameType, ModuleType
from typing import Any, Final

from leadline.frameworks.loggers.interceptor import Interceptor
from leadline.frameworks.loggers.patches import Logger, Replacement


def _values(library: ModuleType, tap: Interceptor) -> Iterable[Replacement]:
    """Every metric's value passes one function of the library; nothing is kept in a metric for it."""

    def make(squeeze: Callable[..., Any]) -> Callable[..., Any]:
        def squeezed(*args: Any, **kwargs: Any) -> Any:
            value = squeeze(*args, **kwargs)
            tap.guard.run(_tell, tap, value, sys._getframe(2))
            return value

        return squeezed

    yield Replacement(library, "_squeeze_if_scalar", make, is_compiled=True)


def _tell(tap: Interceptor, value: Any, frame: FrameType) -> None:
    metric = frame.f_locals.get("self")
    if metric is None or tap.is_named(metric):
        return
    name = tap.names.find(metric) or tap.names.give(metric, type(metric).__name__)
    found = dict(value) if isinstance(value, Mapping) else {name: value}
    if _is_of_a_batch(frame):
        found = {f"{each}_step": one for each, one in found.items()}
    tap.tell_unnamed(metric, found)


def _is_of_a_batch(frame: FrameType) -> bool:
    """Whether ``forward`` asks, for the value of its batch alone."""
    caller = frame.f_back
    return caller is not None and caller.f_code.co_name.startswith("_forward_")


def _collections(library: ModuleType, tap: Interceptor) -> Iterable[Replacement]:
    """The members of a collection bear the names that it gives them."""

    def name_members(collection: Any, *args: object, **kwargs: object) -> None:
        for key, metric in collection._modules.items():
            tap.names.give(metric, collection._set_name(key))

    for name in ("forward", "compute"):
        yield Replacement(library.MetricCollection, name, tap.before(name_members), is_compiled=True)


TORCHMETRICS: Final = Logger("torchmetrics", {"torchmetrics.metric": _values, "torchmetrics.collections": _collections})
