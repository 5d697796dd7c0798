"""The action worker: a process that performs one action, isolated from the judge if it hangs, crashes or leaks."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from leadline.actions.action import Action, ActionContext, Outcome, RejectedError, RetryLaterError, TrainingProgress
from leadline.actions.registry import is_built_in, make_action
from leadline.config.secrets import scrub
from leadline.config.variables import Secret, resolve
from leadline.errors import LeadlineError
from leadline.judge.delivery import RetryPolicy
from leadline.judge.worker_messages import ActionAnswer, ActionRequest, ActionSetup
from leadline.process import messages
from leadline.process.interpreter import import_from
from leadline.records.notification import Notification

if TYPE_CHECKING:
    from leadline.judge.snapshots import Segments

_SNAPSHOT_SECONDS: Final = 2.0
"""How long a raw tensor is waited for: it may be written later than the row of its step."""
_MAX_CHARACTERS: Final = 300
"""The maximal length of an outcome or an error."""


def main() -> int:
    """Perform the action for each notification of the judge, until the judge closes the pipe."""
    messages.become_worker()
    worker: ActionWorker | None = None
    for message in messages.incoming():
        if worker is None:
            worker = ActionWorker(message)
            messages.send(worker.setup_result)
        else:
            worker.prepare(message)
            messages.send({"begun": True})
            messages.send(worker.deliver())
    if worker is not None:
        messages.send(worker.close())
    return 0


class ActionWorker:
    """One action, constructed once.

    Args:
        setup: The action and its parameters.
        is_inline: Whether it is a part of the judge, which must not wait for tensors, nor be kept from exiting.

    Attributes:
        setup_result: The answer to the judge: the retry policy, or why the action cannot be constructed.
    """

    def __init__(self, setup: ActionSetup, *, is_inline: bool = False) -> None:
        self._snapshot_seconds = 0.0 if is_inline else _SNAPSHOT_SECONDS
        self._failures: tuple[type[BaseException], ...] = (Exception,) if is_inline else (Exception, SystemExit)
        self._run: str = setup["run"]
        self._is_custom = not is_built_in(setup["action"])
        self._follows: str = setup.get("follows", "*")
        self._secrets: tuple[Secret, ...] = ()
        self._notice: Notification | None = None
        self._segments: Segments | None = None
        self._prepared = ""
        self.setup_result = self._run_guarded(lambda: self._set_up(setup))

    def prepare(self, message: ActionRequest) -> None:
        """Take a notification; reads the snapshots of its tensors, which takes time."""
        if self._prepared == message["notice"]["id"] and self._notice is not None:
            notification = self._notice  # another attempt
        else:
            notification = self._with_snapshots(Notification.from_dict(message["notice"]))
        self._notice, self._prepared = notification, notification.id
        workers = tuple(TrainingProgress(**document) for document in message["workers"])
        self._context = ActionContext(self._run, notification, workers, message["now_ns"], self._follows)

    def deliver(self) -> ActionAnswer:
        """Perform the action and return its outcome."""
        return self._run_guarded(self._run_action)

    def close(self) -> ActionAnswer:
        """Release the action's resources: no more notifications follow."""
        return self._run_guarded(self._close)

    def _set_up(self, setup: ActionSetup) -> ActionAnswer:
        parameters = setup["parameters"]
        if self._is_custom:
            import_from([setup["folder"]])
        self._plain = make_action(setup["action"], parameters, setup["folder"])
        resolved, self._secrets = resolve(parameters, os.environ, self._plain.verbatim)
        self._action: Action = make_action(setup["action"], resolved, setup["folder"])
        return {"policy": asdict(RetryPolicy.of(self._plain)), "is_volatile": self._plain.is_volatile}

    def _with_snapshots(self, notification: Notification) -> Notification:
        wants = self._plain.wants_snapshot and not self._plain.dry_run
        if notification.kind != "finding" or not notification.tensors or not wants:
            return notification
        from leadline.judge.snapshots import Segments, snapshots

        self._segments = self._segments or Segments()
        try:
            tensors = snapshots(self._run, notification, self._segments, wait_seconds=self._snapshot_seconds)
            return replace(notification, tensors=tensors)
        except (LeadlineError, OSError):  # a run that cannot be read must not prevent the notification
            return notification

    def _run_action(self) -> ActionAnswer:
        if self._plain.dry_run:
            return self._to_message(Outcome(f"dry run: {self._plain.describe(self._context)}"))
        return self._to_message(self._action.run(self._context))

    def _close(self) -> ActionAnswer:
        self._action.close()
        return {"closed": True}

    def _to_message(self, outcome: Outcome) -> ActionAnswer:
        announcement = outcome.announcement
        return {
            "outcome": self._line(outcome.outcome),
            "step": outcome.step,
            "request": outcome.request,
            "announcement": None if announcement is None else self._line(announcement),
            "is_nothing": outcome.is_nothing,
        }

    def _run_guarded(self, operation: Callable[[], ActionAnswer]) -> ActionAnswer:
        """The boundary "action runner": report any exception of an action to the judge, without secrets.

        Only the texts of our own errors, of ``RejectedError`` and of ``RetryLaterError`` are reported.
        """
        try:
            return operation()
        except (RejectedError, LeadlineError) as error:
            return {"error": self._line(f"{error}"), "is_final": True}
        except RetryLaterError as error:
            return {"error": self._line(f"{error}"), "after_seconds": error.after_seconds}
        except self._failures as error:
            return {"error": self._line(f"{_describe_error(error)}{self._where(error)}")}

    def _where(self, error: BaseException) -> str:
        """Return the line of a custom action's file that raised the error."""
        frames = traceback.extract_tb(error.__traceback__) if self._is_custom else []
        theirs = [frame for frame in frames if not frame.filename.startswith(os.path.dirname(__file__))]
        return f" ({os.path.basename(theirs[-1].filename)}:{theirs[-1].lineno})" if theirs else ""

    def _line(self, text: str) -> str:
        line = " ".join(scrub(text, self._secrets).split())
        return line if len(line) <= _MAX_CHARACTERS else f"{line[: _MAX_CHARACTERS - 2]} …"


def _describe_error(error: BaseException) -> str:
    """Return the meaning of a system error; of another exception its type, since its text may contain secrets."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
