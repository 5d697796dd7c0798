"""A courier: the process that does one action of a run, and may hang, crash or grow without the judge's harm."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from leadline.actions.action import Action, ActionContext, Outcome, RejectedError, RetryLaterError, TrainingProgress
from leadline.actions.registry import is_built_in, make_action
from leadline.config.secrets import Secret, resolve, scrub
from leadline.errors import LeadlineError
from leadline.judge import json_pipe
from leadline.judge.parent_death import die_with_parent
from leadline.judge.retry_policy import RetryPolicy
from leadline.records.notification import Notification

if TYPE_CHECKING:
    from leadline.judge.snapshots import Segments

_MOST_CHARACTERS: Final = 300
"""Of what an action says, or of why it failed."""

Message = dict[str, Any]


def main() -> int:
    """Do what the judge asks for until it closes the pipe."""
    inbox, outbox = json_pipe.MessageReader(int(sys.argv[1])), int(sys.argv[2])
    for each in (signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    die_with_parent()
    courier: ActionWorker | None = None
    while not inbox.is_closed:
        for message in inbox.receive():
            if courier is None:
                courier = ActionWorker(message)
                json_pipe.send(outbox, courier.said)
            else:
                courier.prepare(message)
                json_pipe.send(outbox, {"begun": True})
                json_pipe.send(outbox, courier.deliver())
    if courier is not None:
        json_pipe.send(outbox, courier.close())
    return 0


class ActionWorker:
    """One action, made once.

    Attributes:
        said: What the judge must know of it: its manners, or why it cannot be made.
    """

    def __init__(self, order: Message) -> None:
        self._run: str = order["run"]
        self._is_custom = not is_built_in(order["action"])
        self._follows: str = order.get("follows", "*")
        self._secrets: tuple[Secret, ...] = ()
        self._notice: Notification | None = None
        self._segments: Segments | None = None
        self._prepared = ""
        self.said = self._guarded(lambda: self._hire(order))

    def prepare(self, message: Message) -> None:
        """Take in a notice; what the run holds of its tensors is read here, where nobody waits for it."""
        if self._prepared == message["notice"]["id"] and self._notice is not None:
            notice = self._notice  # another try
        else:
            notice = self._with_snapshots(Notification.from_dict(message["notice"]))
        self._notice, self._prepared = notice, notice.id
        workers = tuple(TrainingProgress(**each) for each in message["workers"])
        self._occasion = ActionContext(self._run, notice, workers, message["now_ns"], self._follows)

    def deliver(self) -> Message:
        """Run the action; what came of it."""
        return self._guarded(self._run_action)

    def close(self) -> Message:
        """No notice comes any more."""
        return self._guarded(self._close)

    def _hire(self, order: Message) -> Message:
        given = order["parameters"]
        self._plain = make_action(order["action"], given, order["folder"])
        resolved, self._secrets = resolve(given, os.environ, self._plain.verbatim)
        self._action: Action = make_action(order["action"], resolved, order["folder"])
        return {"manners": asdict(RetryPolicy.of(self._plain)), "is_volatile": self._plain.is_volatile}

    def _with_snapshots(self, notice: Notification) -> Notification:
        wants = self._plain.wants_snapshot and not self._plain.dry_run
        if notice.kind != "finding" or not notice.tensors or not wants:
            return notice
        from leadline.judge.snapshots import Segments, snapshots

        self._segments = self._segments or Segments()
        try:
            return replace(notice, tensors=snapshots(self._run, notice, self._segments))
        except (LeadlineError, OSError):  # a run that cannot be read is no reason to tell nobody
            return notice

    def _run_action(self) -> Message:
        if self._plain.dry_run:
            return self._told(Outcome(f"dry run: {self._plain.describe(self._occasion)}"))
        return self._told(self._action.run(self._occasion))

    def _close(self) -> Message:
        self._action.close()
        return {"closed": True}

    def _told(self, outcome: Outcome) -> Message:
        said = outcome.announcement
        return {
            "outcome": self._line(outcome.outcome),
            "step": outcome.step,
            "request": outcome.request,
            "announcement": None if said is None else self._line(said),
        }

    def _guarded(self, deed: Any) -> Message:
        """The boundary "action runner": what an action raises is told to the judge, without what is secret."""
        try:
            answer: Message = deed()
            return answer
        except (RejectedError, LeadlineError) as error:
            return {"error": self._line(f"{error}"), "is_final": True}
        except RetryLaterError as error:
            return {"error": self._line(f"{error}"), "after_seconds": error.after_seconds}
        except (Exception, SystemExit) as error:  # noqa: BLE001
            return {"error": self._line(f"{_described(error)}{self._where(error)}")}

    def _where(self, error: BaseException) -> str:
        """The line of a stranger's file that raised it: what the action prints is seen by nobody."""
        frames = traceback.extract_tb(error.__traceback__) if self._is_custom else []
        theirs = [each for each in frames if not each.filename.startswith(os.path.dirname(__file__))]
        return f" ({os.path.basename(theirs[-1].filename)}:{theirs[-1].lineno})" if theirs else ""

    def _line(self, text: str) -> str:
        line = " ".join(scrub(text, self._secrets).split())
        return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 2]} …"


def _described(error: BaseException) -> str:
    """An error in words: those of the system by what they mean, others with their type."""
    if isinstance(error, OSError) and str(error):
        return error.strerror.lower() if error.strerror else str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
