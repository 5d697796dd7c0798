"""A rule worker: a process that asks rules, and may hang, crash or eat its memory without the judge's harm."""

from __future__ import annotations

import os
import resource
import signal
import sys
from typing import Any

from leadline.errors import LeadlineError
from leadline.judge import pipe
from leadline.judge.slate import Slate
from leadline.records.manifest import RuleSpec
from leadline.rules.rule import Rule

_MOST_SECONDS = 0.25
"""After so long a worker tells what it has, however much is left."""
_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Answer until the judge closes the pipe."""
    inbox, outbox, slate = pipe.Inbox(int(sys.argv[1])), int(sys.argv[2]), Slate(int(sys.argv[3]))
    for each in (signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    _die_with_parent()
    worker: _Worker | None = None
    while not inbox.is_closed:
        for message in inbox.receive():
            if worker is None:
                worker = _Worker(message, slate)
                pipe.send(outbox, {"ready": True})
            else:
                pipe.send(outbox, worker.advance(message))
    return 0


class _Worker:
    """The rules of one worker."""

    def __init__(self, order: dict[str, Any], slate: Slate) -> None:
        from leadline.judge.judging import Judging

        self._refused: dict[str, str] = {}
        specs = [RuleSpec(**each) for each in order["rules"]]
        places = {spec.alias: place for place, spec in enumerate(specs)} | {"": -1}
        rules = []
        for spec in specs:
            slate.write(places[spec.alias])
            rule = self._resolve(spec)
            if rule is not None:
                rules.append((spec.alias, rule))
        slate.write(-1)
        _limit_memory(order["memory_bytes"])
        self._judging = Judging(
            order["run"], rules, started_ns=order["started_ns"], mark=lambda alias: slate.write(places[alias])
        )

    def _resolve(self, spec: RuleSpec) -> Rule | None:
        from leadline.judge.plan import resolve_rule

        try:
            return resolve_rule(spec)
        except LeadlineError as error:
            self._refused[spec.alias] = str(error)
            return None

    def advance(self, message: dict[str, Any]) -> dict[str, Any]:
        from leadline.judge.judging import to_message

        progress = self._judging.advance(is_over=message["is_over"], gone=message["gone"], most_seconds=_MOST_SECONDS)
        answer = to_message(progress)
        for alias, error in self._refused.items():
            answer["rules"][alias] = {
                "verdict": None, "why": "", "judged_steps": 0, "findings": 0, "error": error,
            }  # fmt: skip
        self._refused.clear()
        return answer


def _limit_memory(limit_bytes: int) -> None:
    """So much more address space than is used now, so that a rule that wants more gets a ``MemoryError``."""
    with open("/proc/self/statm", "rb") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = used + limit_bytes
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _die_with_parent() -> None:
    """A rule that loops for ever must not outlive a judge that was killed."""
    import ctypes

    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
