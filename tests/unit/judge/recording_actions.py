"""Actions in a file, and helpers for tests of the judge's delivery queues."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from leadline.actions.action import Outcome
from leadline.judge.delivery import Delivery, Result
from leadline.records.manifest import ActionSpec
from leadline.records.notification import Notification

PATIENCE_SECONDS = 120.0
ACTIONS = '''
import json, os, signal, time
from leadline.actions import Action, RetryLaterError, Outcome, RejectedError

class Note(Action, frozen=True, kw_only=True):
    """Writes the id of each notification to a file; words in the file `<path>.do` decide what else it does."""
    path: str
    target = "path"

    def run(self, context):
        with open(self.path, "a") as file:
            file.write(context.notification.id + "\\n")
        match self.word():
            case "fail":
                raise ConnectionRefusedError(111, "Connection refused")
            case "refuse":
                raise RejectedError("404 Not Found")
            case "later":
                raise RetryLaterError("503 Busy", 0.3)
            case "hang":
                time.sleep(3600)
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "leave":
                os._exit(3)
        return Outcome(f"noted {context.notification.id}", announcement="noting")

    def word(self):
        try:
            with open(self.path + ".do") as file:
                words = file.read().split()
        except FileNotFoundError:
            return ""
        with open(self.path) as file:
            tries = len(file.readlines())
        return words[tries - 1] if tries <= len(words) else words[-1] if words[-1:] == ["hang"] else ""

    def close(self):
        with open(self.path, "a") as file:
            file.write("closed\\n")

class Requests(Note, frozen=True, kw_only=True):
    place = "worker"

    def run(self, context):
        Note.run(self, context)
        return Outcome("asked to note", 9, "request-7")

class Gauge(Note, frozen=True, kw_only=True):
    is_volatile = True
'''


REFUSED = f"connection refused (mine.py:{1 + ACTIONS[: ACTIONS.index('raise ConnectionRefused')].count(chr(10))})"
"""The reported error of ``fail``, with its location."""


def finding(step: int, rule: str = "e", time_ns: int = 0) -> Notification:
    return Notification(
        f"{rule}/opened/{step}",
        "finding",
        "run",
        "/run",
        "IssuesFound",
        time_ns,
        rule=rule,
        step=step,
        global_step=step,
        message="seen",
    )


def closing(step: int, rule: str = "e") -> Notification:
    return Notification(f"{rule}/closed/{step}", "closed", "run", "/run", "IssuesFound", 0, rule=rule, step=step)


class Reports:
    """The results that a delivery queue reported."""

    def __init__(self) -> None:
        self.all: list[tuple[str, Result, str]] = []

    def __call__(self, delivery: Delivery, result: Result, outcome: Outcome) -> None:
        self.all.append((delivery.notification.id, result, outcome.outcome))

    @property
    def final(self) -> list[tuple[str, Result, str]]:
        return [report for report in self.all if report[1] != "asked"]

    @property
    def results(self) -> list[tuple[str, Result]]:
        return [(notification, result) for notification, result, _ in self.all]


def spec(name: str, folder: str, **parameters: Any) -> ActionSpec:
    return ActionSpec("*", f"mine.py:{name}", parameters=parameters, folder=folder)


def wait_until(holds: Callable[[], object], advance: Callable[[], None]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < until
        advance()
        time.sleep(0.01)
