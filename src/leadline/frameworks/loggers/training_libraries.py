"""Lightning, Transformers, Stable-Baselines3, Ray Train and torchmetrics: the values that they log or compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from leadline.frameworks.loggers.interceptor import Interceptor, LoggingLibrary
from leadline.frameworks.patches import MakeReplacement

# --- Lightning -----------------------------------------------------------------------------------------------


def _results(library: ModuleType, interceptor: Interceptor) -> None:
    """Patch the end of every ``self.log``, where the name and the step or epoch frequency are known."""
    interceptor.replace(library._ResultCollection, "update_metrics", interceptor.after(_step_value))


def _step_value(results: Any, key: str, value: Any, *rest: object, **others: object) -> dict[str, object]:
    metric = results[key]
    if not (results.training and metric.meta.on_step and metric.meta.logger):
        return {}
    return {results._forked_name(metric, True)[1]: results._get_cache(metric, True)}


def _connector(library: ModuleType, interceptor: Interceptor) -> None:
    """Patch the logger connector, which logs epoch and evaluation values, and every N steps training values."""
    connector = library._LoggerConnector
    interceptor.replace(connector, "update_train_step_metrics", interceptor.around(_everything, _nothing))
    interceptor.replace(connector, "log_metrics", interceptor.around(_with_epoch, _metrics))


def _with_epoch(connector: object, metrics: Mapping[str, Any], *rest: object, **others: object) -> dict[str, object]:
    return {**metrics, "epoch": None}


def _metrics(logger: object, metrics: Mapping[str, Any], *rest: object, **others: object) -> Mapping[str, Any]:
    return metrics


def _everything(*args: object, **kwargs: object) -> None:
    return None


def _nothing(*args: object, **kwargs: object) -> dict[str, object]:
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


# --- Transformers --------------------------------------------------------------------------------------------


def _patches(library: ModuleType, interceptor: Interceptor) -> None:
    interceptor.replace(library.Trainer, "log", interceptor.around(_forwarded, _history))


def _forwarded(trainer: object, logs: Mapping[str, Any], *rest: object, **others: object) -> Mapping[str, Any]:
    """Return the values that the trainer's callbacks forward to TensorBoard and others under other names."""
    return logs


def _history(trainer: Any, logs: Mapping[str, Any], *rest: object, **others: object) -> dict[str, object]:
    return {name: value for name, value in trainer.state.log_history[-1].items() if name != "step"}


TRANSFORMERS: Final = LoggingLibrary("transformers", {"transformers.trainer": _patches})


# --- Stable-Baselines3 ---------------------------------------------------------------------------------------


def _sb3_logger(library: ModuleType, interceptor: Interceptor) -> None:
    """Patch the end of an iteration: what was recorded in it is written to the outputs under the same names."""
    interceptor.replace(library.Logger, "dump", _recording_before(interceptor))


def _recording_before(interceptor: Interceptor) -> MakeReplacement:
    """Record the values before they are written, which clears them; what the outputs forward is not recorded."""
    around = interceptor.around(_everything, _nothing)

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        return interceptor.before(lambda *args, **kwargs: interceptor.record(_recorded, args, kwargs))(around(original))

    return wrap


def _recorded(logger: Any, *rest: object, **others: object) -> dict[str, object]:
    return dict(logger.name_to_value)


STABLE_BASELINES3: Final = LoggingLibrary("stable_baselines3", {"stable_baselines3.common.logger": _sb3_logger})


# --- Ray Train -----------------------------------------------------------------------------------------------


def _reports(library: ModuleType, interceptor: Interceptor) -> None:
    """Patch what a worker reports to the trainer."""
    interceptor.replace(library, "report", interceptor.after(_reported))


def _reported(metrics: Mapping[str, Any], *rest: object, **others: object) -> Mapping[str, Any]:
    return metrics


RAY_TRAIN: Final = LoggingLibrary("ray.train", {"ray.train": _reports})


# --- torchmetrics --------------------------------------------------------------------------------------------


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
