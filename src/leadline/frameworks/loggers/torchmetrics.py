"""torchmetrics: the results of a metric's ``forward`` and ``compute``, under the name that the library would use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from types import FrameType, ModuleType
from typing import Any, Final

from leadline.frameworks.loggers.interceptor import Interceptor
from leadline.frameworks.loggers.patches import FunctionPatch, LoggingLibrary


def _values(library: ModuleType, interceptor: Interceptor) -> Iterable[FunctionPatch]:
    """Patch the one function of the library that returns every metric's value; metrics are not modified."""

    def wrap(squeeze: Callable[..., Any]) -> Callable[..., Any]:
        def squeezed(*args: Any, **kwargs: Any) -> Any:
            value = squeeze(*args, **kwargs)
            interceptor.guard.run(_log, interceptor, value, sys._getframe(2))
            return value

        return squeezed

    yield FunctionPatch(library, "_squeeze_if_scalar", wrap, is_compiled=True)


def _log(interceptor: Interceptor, value: Any, frame: FrameType) -> None:
    metric = frame.f_locals.get("self")
    if metric is None or interceptor.is_named(metric):
        return
    name = interceptor.names.find(metric) or interceptor.names.give(metric, type(metric).__name__)
    values = dict(value) if isinstance(value, Mapping) else {name: value}
    if _is_batch_value(frame):
        values = {f"{key}_step": number for key, number in values.items()}
    interceptor.log_unnamed(metric, values)


def _is_batch_value(frame: FrameType) -> bool:
    """Return whether the caller is ``forward``, which computes the value of one batch."""
    caller = frame.f_back
    return caller is not None and caller.f_code.co_name.startswith("_forward_")


def _collections(library: ModuleType, interceptor: Interceptor) -> Iterable[FunctionPatch]:
    """Patch metric collections: their members have the names that the collection gives them."""

    def name_members(collection: Any, *args: object, **kwargs: object) -> None:
        for key, metric in collection._modules.items():
            interceptor.names.give(metric, collection._set_name(key))

    for name in ("forward", "compute"):
        yield FunctionPatch(library.MetricCollection, name, interceptor.before(name_members), is_compiled=True)


TORCHMETRICS: Final = LoggingLibrary(
    "torchmetrics", {"torchmetrics.metric": _values, "torchmetrics.collections": _collections}
)
