"""torchmetrics: the results of ``MetricCollection.compute``, under the names that the collection gives them."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from leadline.frameworks.loggers.interceptor import Interceptor, LoggingLibrary


def _patch(library: ModuleType, interceptor: Interceptor) -> None:
    """Replace ``compute``, but not in compiled code: Dynamo traces through the replacement as if it were absent."""
    import torch

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def compute(*args: Any, **kwargs: Any) -> Any:
            values = original(*args, **kwargs)
            if not torch.compiler.is_compiling():
                interceptor.guard.run(interceptor.record, dict, (values,), {})
            return values

        return compute

    interceptor.patches.replace(library.MetricCollection, "compute", make)


TORCHMETRICS: Final = LoggingLibrary("torchmetrics", {"torchmetrics.collections": _patch})
