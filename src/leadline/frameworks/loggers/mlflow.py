"""MLflow: ``log_metric`` and ``log_metrics``, where the fluent functions and the client come together."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Final

from leadline.frameworks.loggers.interceptor import Interceptor, Read
from leadline.frameworks.loggers.patches import Logger, Make, Replacement

_OWN_COLLECTING: Final = ("mlflow.utils.autologging_utils", __name__)
"""In the first the library gathers what it measures itself and what it takes from others, and sends it in later steps;
in this file are the numbers of ours."""
_DEPTH: Final = 4


def _replacements(library: ModuleType, tap: Interceptor) -> Iterable[Replacement]:
    runs = _Runs(library)
    tap.trackers.offer(runs.find)
    yield Replacement(library.MlflowClient, "log_metric", _of_the_script(tap, _metric, runs))
    yield Replacement(library.MlflowClient, "log_batch", _of_the_script(tap, _batch, runs))


def _of_the_script(tap: Interceptor, read: Read, runs: _Runs) -> Make:
    """Hear only what was logged for the script's sake."""

    def read_and_see(*args: Any, **kwargs: Any) -> Any:
        runs.see(*args, **kwargs)
        return read(*args, **kwargs)

    listen = tap.after(read_and_see)

    def make(original: Any) -> Any:
        heard = listen(original)

        def log(*args: Any, **kwargs: Any) -> Any:
            return (original if _is_own_collecting() else heard)(*args, **kwargs)

        return log

    return make


def _is_own_collecting() -> bool:
    frame = sys._getframe(2)
    for _ in range(_DEPTH):
        if frame.f_globals.get("__name__", "").startswith(_OWN_COLLECTING):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


def _metric(client: object, run_id: str, key: str, value: Any, *rest: object, **others: object) -> dict[str, Any]:
    return {key: value}


def _batch(client: object, run_id: str, metrics: Sequence[Any] = (), *rest: object, **others: object) -> dict[str, Any]:
    return {each.key: each.value for each in metrics} if isinstance(metrics, (list, tuple)) else {}


@dataclass(frozen=True, slots=True)
class MlflowRun:
    """A run, reached over a client of its own."""

    library: ClassVar[str] = "mlflow"

    client_module: ModuleType
    run_id: str
    uri: str | None
    """Where it is tracked; None: where the script tracks now."""

    @property
    def title(self) -> str:
        return f"MLflow run {self.run_id}"

    def log(self, name: str, value: float, step: int) -> None:
        client = self.client_module.MlflowClient(self.uri)
        status = client.get_run(self.run_id).info.status
        if status != "RUNNING":
            raise LookupError(f"it is {status}")
        logged = client.log_metric(self.run_id, name, value, step=step)
        if logged is not None:  # the script has the library log in the background
            logged.wait()


class _Runs:
    """The runs that the script has."""

    def __init__(self, library: ModuleType) -> None:
        self._library = library
        self._heard: tuple[str, str] | None = None

    def see(self, client: Any, run_id: str, *rest: object, **others: object) -> None:
        """The script logs into a run, by a client of its own or by the library's."""
        self._heard = (run_id, client.tracking_uri)

    def find(self) -> Iterable[MlflowRun]:
        """The latest that is active in any thread, or the one that was logged into last."""
        fluent = sys.modules.get("mlflow.tracking.fluent")
        find_active = getattr(fluent, "_get_latest_active_run", None)
        active = find_active() if find_active is not None else None
        if active is not None:
            return [MlflowRun(self._library, active.info.run_id, None)]
        return [MlflowRun(self._library, *self._heard)] if self._heard is not None else []


MLFLOW: Final = Logger("mlflow", {"mlflow.tracking.client": _replacements})
