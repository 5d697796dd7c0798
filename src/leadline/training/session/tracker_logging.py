"""Logging the rules' statuses into the script's own trackers, as requests of the kind ``track`` ask."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from leadline.frameworks.loggers.trackers import ScriptTracker
from leadline.records.request import FAILED, REFUSED, Acknowledgement, Request
from leadline.store.control import RequestReader, read_acknowledgements, write_acknowledgement

KIND: Final = "track"
EVERY: Final = "every"
"""What a request says that means all trackers."""
TITLES: Final = {"wandb": "wandb", "mlflow": "MLflow", "tensorboard": "TensorBoard"}
_LOOK_SECONDS: Final = 0.25
_CLOSE_SECONDS: Final = 2.0
_LONGEST: Final = 200
_CREDENTIALS: Final = re.compile(r"(?<=//)[^/@\s]+@")


class TrackerLogging:
    """Takes up the requests, one after the other.

    **A thread of its own** - a tracker that fails or hangs costs the training nothing, and what is asked while no step
    ends is done all the same. Behind a tracker that hangs the requests wait: they are files, and take no memory.

    **Silent until needed** - there is no thread before ``begin`` or the first request.
    """

    def __init__(
        self,
        run: str,
        *,
        trackers: Callable[[], Sequence[ScriptTracker]],
        worker: Callable[[], str],
        step: Callable[[], int],
        guarded: Callable[[Callable[[], None]], Callable[[], object]],
    ) -> None:
        """
        Args:
            trackers: Finds the script's trackers that are live.
            worker: Gives the worker's id.
            step: Gives the last step that ended.
            guarded: Wraps what the thread does, so that a failure of ours is told and ends there.
        """
        self._run, self._trackers, self._worker, self._step = run, trackers, worker, step
        self._guarded = guarded
        self._inbox = RequestReader(run)
        self._waiting: list[Request] = []
        self._wake = threading.Event()
        self._is_closing = False
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begin to look for requests; what others have answered by now is none of ours."""
        if self._thread is None and not self._is_closing:
            self._thread = threading.Thread(target=self._guarded(self._work), name="leadline-tracking", daemon=True)
            self._thread.start()

    def wake(self, request: Request) -> None:
        """There is a request; at the end of a step that is known sooner."""
        self.begin()
        self._wake.set()

    def close(self) -> None:
        """Take up what is left, for two seconds at most; what a tracker keeps waiting longer is refused."""
        self._is_closing = True
        if self._thread is None:
            return
        self._wake.set()
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            for request in [*self._waiting, *self._new()]:
                self._answer(request, f"{REFUSED}the script ended while its tracker did not answer")

    # --- the thread ---------------------------------------------------------------------------------------

    def _work(self) -> None:
        self._inbox.skip(each.id for each in read_acknowledgements(self._run))
        while True:
            is_last = self._is_closing
            self._waiting = self._new()
            while self._waiting:
                self._answer(self._waiting[0], self._follow(self._waiting[0]))
                del self._waiting[0]
            if is_last:
                return
            self._wake.wait(_LOOK_SECONDS)
            self._wake.clear()

    def _new(self) -> list[Request]:
        return [each for each in self._inbox.take() if each.kind == KIND]

    def _follow(self, request: Request) -> str:
        wanted = request.parameters.get("to", EVERY)
        trackers = [each for each in self._trackers() if wanted in (EVERY, each.library)]
        if not trackers:
            return f"{REFUSED}the script has no live {_spoken(wanted)} run"
        failures = {each.title: self._log(each, request) for each in trackers}
        failed = [f"{title}: {why}" for title, why in failures.items() if why]
        logged = [title for title, why in failures.items() if not why]
        if not logged:
            return FAILED + "; ".join(failed)
        return "; ".join([f"logged to {_and(logged)}", *(f"not to {each}" for each in failed)])

    def _log(self, tracker: ScriptTracker, request: Request) -> str:
        """Log to one; how it failed, if it did."""
        asked = request.parameters
        step = self._step() if asked.get("step") is None else int(asked["step"])
        try:
            tracker.log(f"leadline/{asked['rule']}", float(asked["value"]), step)
        except Exception as error:  # noqa: BLE001 - the guard of what others' libraries do in our thread
            return _in_one_line(error)
        return ""

    def _answer(self, request: Request, outcome: str) -> None:
        answer = Acknowledgement(request.id, self._worker(), self._step(), time.time_ns(), outcome)
        try:
            write_acknowledgement(self._run, answer)
        except OSError:
            return  # a full disk: the judge takes it for unanswered


def _spoken(wanted: str) -> str:
    return TITLES.get(wanted, wanted) if wanted != EVERY else "wandb, MLflow or TensorBoard"


def _and(names: Iterable[str]) -> str:
    return " and ".join(names)


def _in_one_line(error: Exception) -> str:
    """What an error says, without what an address in it says of who we are."""
    said = _CREDENTIALS.sub("", " ".join(str(error).split()))
    return f"{type(error).__name__}: {said}"[:_LONGEST]
