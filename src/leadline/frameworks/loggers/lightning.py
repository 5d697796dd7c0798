"""Lightning, under both its names: ``self.log`` and ``Fabric.log``, as they would reach a logger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, Final

from leadline.frameworks.loggers.interceptor import Interceptor
from leadline.frameworks.loggers.patches import Logger, Replacement


def _module(library: ModuleType, tap: Interceptor) -> Iterable[Replacement]:
    """What is logged under a name needs none of a metric's own."""

    def name(module: object, name: str, value: Any, *rest: object, **others: object) -> None:
        tap.name_values({name: value})
        if hasattr(value, "_forward_cache"):
            tap.name_owner(value)

    yield Replacement(library.LightningModule, "log", tap.before(name))


def _results(library: ModuleType, tap: Interceptor) -> Iterable[Replacement]:
    """Each ``self.log`` ends here, with what it shall be called and whether it counts by steps or epochs."""
    yield Replacement(library._ResultCollection, "update_metrics", tap.after(_step_value))


def _step_value(results: Any, key: str, value: Any, *rest: object, **others: object) -> dict[str, Any]:
    kept = results[key]
    if not (results.training and kept.meta.on_step and kept.meta.logger):
        return {}
    return {results._forked_name(kept, True)[1]: results._get_cache(kept, True)}


def _connector(library: ModuleType, tap: Interceptor) -> Iterable[Replacement]:
    """Values of epochs and of evaluation come from here; those of training steps pass by, every so many steps."""
    connector = library._LoggerConnector
    yield Replacement(connector, "update_train_step_metrics", tap.around(_everything, _nothing))
    yield Replacement(connector, "log_metrics", tap.around(_with_epoch, _metrics))


def _with_epoch(connector: object, metrics: Mapping[str, Any], *rest: object, **others: object) -> dict[str, Any]:
    return {**metrics, "epoch": None}


def _metrics(logger: object, metrics: Mapping[str, Any], *rest: object, **others: object) -> Mapping[str, Any]:
    return metrics


def _everything(*args: object, **kwargs: object) -> None:
    return None


def _nothing(*args: object, **kwargs: object) -> dict[str, Any]:
    return {}


def _fabric(library: ModuleType, tap: Interceptor) -> Iterable[Replacement]:
    yield Replacement(library.Fabric, "log_dict", tap.around(_metrics, _metrics))


def _csv(library: ModuleType, tap: Interceptor) -> Iterable[Replacement]:
    """The one logger that has no library of its own below it."""
    yield Replacement(library.CSVLogger, "log_metrics", tap.after(_metrics))


def _logger(library: str, trainer: str, fabric: str) -> Logger:
    return Logger(
        library,
        {
            f"{trainer}.core.module": _module,
            f"{trainer}.trainer.connectors.logger_connector.result": _results,
            f"{trainer}.trainer.connectors.logger_connector.logger_connector": _connector,
            f"{fabric}.fabric": _fabric,
            f"{fabric}.loggers.csv_logs": _csv,
        },
    )


LIGHTNING: Final = _logger("lightning", "lightning.pytorch", "lightning.fabric")
PYTORCH_LIGHTNING: Final = _logger("pytorch_lightning", "pytorch_lightning", "lightning_fabric")
