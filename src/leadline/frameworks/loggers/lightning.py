"""Lightning (``lightning`` and ``pytorch_lightning``): ``self.log`` and ``Fabric.log`` as a logger receives them."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from leadline.frameworks.loggers.interceptor import Interceptor, LoggingLibrary


def _results(library: ModuleType, interceptor: Interceptor) -> None:
    """Patch the end of every ``self.log``, where the name and the step or epoch frequency are known."""
    interceptor.replace(library._ResultCollection, "update_metrics", interceptor.after(_step_value))


def _step_value(results: Any, key: str, value: Any, *rest: object, **others: object) -> dict[str, Any]:
    metric = results[key]
    if not (results.training and metric.meta.on_step and metric.meta.logger):
        return {}
    return {results._forked_name(metric, True)[1]: results._get_cache(metric, True)}


def _connector(library: ModuleType, interceptor: Interceptor) -> None:
    """Patch the logger connector, which logs epoch and evaluation values, and every N steps training values."""
    connector = library._LoggerConnector
    interceptor.replace(connector, "update_train_step_metrics", interceptor.around(_everything, _nothing))
    interceptor.replace(connector, "log_metrics", interceptor.around(_with_epoch, _metrics))


def _with_epoch(connector: object, metrics: Mapping[str, Any], *rest: object, **others: object) -> dict[str, Any]:
    return {**metrics, "epoch": None}


def _metrics(logger: object, metrics: Mapping[str, Any], *rest: object, **others: object) -> Mapping[str, Any]:
    return metrics


def _everything(*args: object, **kwargs: object) -> None:
    return None


def _nothing(*args: object, **kwargs: object) -> dict[str, Any]:
    return {}


def _fabric(library: ModuleType, interceptor: Interceptor) -> None:
    interceptor.replace(library.Fabric, "log_dict", interceptor.around(_metrics, _metrics))


def _csv(library: ModuleType, interceptor: Interceptor) -> None:
    """Patch the CSV logger, the only one that is not based on another library."""
    interceptor.replace(library.CSVLogger, "log_metrics", interceptor.after(_metrics))


def _library(name: str, trainer: str, fabric: str) -> LoggingLibrary:
    return LoggingLibrary(
        name,
        {
            f"{trainer}.trainer.connectors.logger_connector.result": _results,
            f"{trainer}.trainer.connectors.logger_connector.logger_connector": _connector,
            f"{fabric}.fabric": _fabric,
            f"{fabric}.loggers.csv_logs": _csv,
        },
    )


LIGHTNING: Final = _library("lightning", "lightning.pytorch", "lightning.fabric")
PYTORCH_LIGHTNING: Final = _library("pytorch_lightning", "pytorch_lightning", "lightning_fabric")
