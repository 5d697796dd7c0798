"""Lightning (``lightning`` and ``pytorch_lightning``): ``self.log`` and ``Fabric.log`` as a logger receives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, Final

from leadline.frameworks.loggers.interceptor import Interceptor
from leadline.frameworks.loggers.patches import FunctionPatch, LoggingLibrary


def _module(library: ModuleType, interceptor: Interceptor) -> Iterable[FunctionPatch]:
    """Patch ``self.log``: values logged under a name need no name of the metric's own."""

    def name(module: object, name: str, value: Any, *rest: object, **others: object) -> None:
        interceptor.name_values({name: value})
        if hasattr(value, "_forward_cache"):
            interceptor.name_owner(value)

    yield FunctionPatch(library.LightningModule, "log", interceptor.before(name))


def _results(library: ModuleType, interceptor: Interceptor) -> Iterable[FunctionPatch]:
    """Patch the end of every ``self.log``, where the name and the step or epoch frequency are known."""
    yield FunctionPatch(library._ResultCollection, "update_metrics", interceptor.after(_step_value))


def _step_value(results: Any, key: str, value: Any, *rest: object, **others: object) -> dict[str, Any]:
    metric = results[key]
    if not (results.training and metric.meta.on_step and metric.meta.logger):
        return {}
    return {results._forked_name(metric, True)[1]: results._get_cache(metric, True)}


def _connector(library: ModuleType, interceptor: Interceptor) -> Iterable[FunctionPatch]:
    """Patch the logger connector, which logs epoch and evaluation values, and every N steps training values."""
    connector = library._LoggerConnector
    yield FunctionPatch(connector, "update_train_step_metrics", interceptor.around(_everything, _nothing))
    yield FunctionPatch(connector, "log_metrics", interceptor.around(_with_epoch, _metrics))


def _with_epoch(connector: object, metrics: Mapping[str, Any], *rest: object, **others: object) -> dict[str, Any]:
    return {**metrics, "epoch": None}


def _metrics(logger: object, metrics: Mapping[str, Any], *rest: object, **others: object) -> Mapping[str, Any]:
    return metrics


def _everything(*args: object, **kwargs: object) -> None:
    return None


def _nothing(*args: object, **kwargs: object) -> dict[str, Any]:
    return {}


def _fabric(library: ModuleType, interceptor: Interceptor) -> Iterable[FunctionPatch]:
    yield FunctionPatch(library.Fabric, "log_dict", interceptor.around(_metrics, _metrics))


def _csv(library: ModuleType, interceptor: Interceptor) -> Iterable[FunctionPatch]:
    """Patch the CSV logger, the only one that is not based on another library."""
    yield FunctionPatch(library.CSVLogger, "log_metrics", interceptor.after(_metrics))


def _library(name: str, trainer: str, fabric: str) -> LoggingLibrary:
    return LoggingLibrary(
        name,
        {
            f"{trainer}.core.module": _module,
            f"{trainer}.trainer.connectors.logger_connector.result": _results,
            f"{trainer}.trainer.connectors.logger_connector.logger_connector": _connector,
            f"{fabric}.fabric": _fabric,
            f"{fabric}.loggers.csv_logs": _csv,
        },
    )


LIGHTNING: Final = _library("lightning", "lightning.pytorch", "lightning.fabric")
PYTORCH_LIGHTNING: Final = _library("pytorch_lightning", "pytorch_lightning", "lightning_fabric")
