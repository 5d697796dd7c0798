"""MLflow: ``log_metric`` and ``log_batch`` of the client, which the fluent functions also call."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Final

from leadline.frameworks.loggers.interceptor import Interceptor, LoggingLibrary, Read, TrackerClosedError
from leadline.frameworks.patches import MakeReplacement

_INTERNAL_MODULES: Final = ("mlflow.utils.autologging_utils", __name__)
"""Modules whose calls are not the script's: MLflow's autologging, which sends its values in later steps, and this one,
which logs values of Leadline."""
_MAX_FRAMES: Final = 4


def _patches(library: ModuleType, interceptor: Interceptor) -> None:
    runs = _Runs(library)
    interceptor.trackers.register(runs.find)
    interceptor.replace(library.MlflowClient, "log_metric", _script_calls(interceptor, _metric, runs))
    interceptor.replace(library.MlflowClient, "log_batch", _script_calls(interceptor, _batch, runs))


def _script_calls(interceptor: Interceptor, read: Read, runs: _Runs) -> MakeReplacement:
    """Record only what the script itself logs."""

    def read_and_note(*args: Any, **kwargs: Any) -> Any:
        runs.note(*args, **kwargs)
        return read(*args, **kwargs)

    record = interceptor.after(read_and_note)

    def wrap(original: Any) -> Any:
        recording = record(original)

        def log(*args: Any, **kwargs: Any) -> Any:
            return (original if _is_internal_call() else recording)(*args, **kwargs)

        return log

    return wrap


def _is_internal_call() -> bool:
    frame = sys._getframe(2)
    for _ in range(_MAX_FRAMES):
        if frame.f_globals.get("__name__", "").startswith(_INTERNAL_MODULES):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


def _metric(client: object, run_id: str, key: str, value: Any, *rest: object, **others: object) -> dict[str, object]:
    return {key: value}


def _batch(
    client: object, run_id: str, metrics: Sequence[Any] = (), *rest: object, **others: object
) -> dict[str, object]:
    return {metric.key: metric.value for metric in metrics} if isinstance(metrics, (list, tuple)) else {}


@dataclass(frozen=True, slots=True)
class MlflowRun:
    """An MLflow run, reached through a client of its own."""

    library: ClassVar[str] = "mlflow"

    client_module: ModuleType
    run_id: str
    uri: str | None
    """The tracking URI; None: the script's current one."""

    @property
    def title(self) -> str:
        return f"MLflow run {self.run_id}"

    def log(self, name: str, value: float, step: int) -> None:
        client = self.client_module.MlflowClient(self.uri)
        status = client.get_run(self.run_id).info.status
        if status != "RUNNING":
            raise TrackerClosedError(f"it is {status}")
        logged = client.log_metric(self.run_id, name, value, step=step)
        if logged is not None:  # the script has enabled asynchronous logging
            logged.wait()


class _Runs:
    """The script's MLflow runs."""

    def __init__(self, library: ModuleType) -> None:
        self._library = library
        self._last_logged: tuple[str, str] | None = None

    def note(self, client: Any, run_id: str, *rest: object, **others: object) -> None:
        """Note that the script logs into a run."""
        self._last_logged = (run_id, client.tracking_uri)

    def find(self) -> Iterable[MlflowRun]:
        """Return the latest run that is active in any thread, or else the one that was logged into last."""
        fluent = sys.modules.get("mlflow.tracking.fluent")
        find_active = getattr(fluent, "_get_latest_active_run", None)
        active = find_active() if find_active is not None else None
        if active is not None:
            return [MlflowRun(self._library, active.info.run_id, None)]
        return [MlflowRun(self._library, *self._last_logged)] if self._last_logged is not None else []


MLFLOW: Final = LoggingLibrary("mlflow", {"mlflow.tracking.client": _patches})
