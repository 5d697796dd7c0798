"""Logging of rule statuses to the script's own trackers, as the action ``tracker`` requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from leadline.frameworks.loggers.interceptor import ScriptTracker, TrackerClosedError
from leadline.instrumentation.step_context import StepContext
from leadline.records.request import Answer, Track
from leadline.store.control import RequestReader, acknowledge, read_acknowledgements

EVERY: Final = "every"
"""The target of a request to all trackers."""
TITLES: Final = {"wandb": "wandb", "mlflow": "MLflow", "tensorboard": "TensorBoard"}
_CHECK_SECONDS: Final = 0.25
_CLOSE_SECONDS: Final = 2.0


class TrackerLogging:
    """Handles the requests, one after the other.

    **A thread of its own** - a tracker that fails or hangs costs the training nothing, and requests are handled also
    while no step ends. Behind a tracker that hangs the requests wait: they are files, and take no memory.

    **Silent until needed** - there is no thread before ``begin`` or the first request.

    Args:
        find_trackers: Finds the live trackers of the script.
        guarded: Wraps the function of the thread, so that a failure of ours is noted and affects nothing else.
    """

    def __init__(
        self,
        context: StepContext,
        find_trackers: Callable[[], Sequence[ScriptTracker]],
        guarded: Callable[[Callable[[], None]], Callable[[], object]],
    ) -> None:
        self._context, self._find_trackers, self._guarded = context, find_trackers, guarded
        self._inbox = RequestReader(context.run)
        self._inbox.skip(context.resumption.requests)
        self._pending: list[Track] = []
        self._wake = threading.Event()
        self._is_closing = False
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begin to look for requests; those that others have acknowledged already are skipped."""
        if self._thread is None and not self._is_closing:
            self._thread = threading.Thread(target=self._guarded(self._work), name="leadline-tracking", daemon=True)
            self._thread.start()

    def wake(self, request: Track) -> None:
        """Handle a request now: at the end of a step it is known earlier than to the thread."""
        self.begin()
        self._wake.set()

    def close(self) -> None:
        """Handle the remaining requests, for two seconds at most; refuse what a tracker delays longer."""
        self._is_closing = True
        if self._thread is None:
            return
        self._wake.set()
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            for request in [*self._pending, *self._new_requests()]:
                self._acknowledge(request, Answer("refused", "the script ended while its tracker did not respond"))

    # --- the thread ---------------------------------------------------------------------------------------

    def _work(self) -> None:
        self._inbox.skip(read_acknowledgements(self._context.run))
        while True:
            is_last = self._is_closing
            self._pending = self._new_requests()
            while self._pending:
                self._acknowledge(self._pending[0], self._handle(self._pending[0]))
                del self._pending[0]
            if is_last:
                return
            self._wake.wait(_CHECK_SECONDS)
            self._wake.clear()

    def _new_requests(self) -> list[Track]:
        return [request for request in self._inbox.take() if isinstance(request, Track)]

    def _handle(self, request: Track) -> Answer:
        """Log the status of a request to its trackers; return the answer."""
        trackers = [tracker for tracker in self._find_trackers() if request.to in (EVERY, tracker.library)]
        if not trackers:
            return Answer("refused", f"the script has no live {_format_target(request.to)} run")
        errors = {tracker.title: self._log(tracker, request) for tracker in trackers}
        failed = [f"{title}: {error}" for title, error in errors.items() if error]
        logged = [title for title, error in errors.items() if not error]
        if not logged:
            return Answer("failed", "; ".join(failed))
        return Answer("done", "; ".join([f"logged to {_join(logged)}", *(f"not to {failure}" for failure in failed)]))

    def _log(self, tracker: ScriptTracker, request: Track) -> str:
        """Log to one tracker; return the error, if there is one."""
        step = self._last_step() if request.step is None else request.step
        try:
            tracker.log(f"leadline/{request.rule}", request.value, step)
        except TrackerClosedError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - the guard of third-party code in our thread
            return type(error).__name__  # its text may contain credentials
        return ""

    def _acknowledge(self, request: Track, answer: Answer) -> None:
        # on a full disk the judge sees no acknowledgement
        acknowledge(self._context.run, request.id, self._context.worker, self._last_step(), answer)

    def _last_step(self) -> int:
        """Return the last complete train step."""
        return self._context.train_step - 1


def _format_target(target: str) -> str:
    return TITLES.get(target, target) if target != EVERY else "wandb, MLflow or TensorBoard"


def _join(names: Iterable[str]) -> str:
    return " and ".join(names)
