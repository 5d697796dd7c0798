"""A rule worker: a process that asks rules, and may hang, crash or eat its memory without the judge's harm."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
from dataclasses import asdict
from typing import Any

from leadline.errors import LeadlineError
from leadline.judge import json_pipe
from leadline.judge.parent_death import die_with_parent
from leadline.judge.worker_status import WorkerStatus
from leadline.records.manifest import RuleSpec
from leadline.rules.rule import Rule

_MOST_SECONDS = 0.25
"""After so long a worker tells what it has, however much is left."""
_CUSTOM_NICE = 10
"""Custom rules yield to the training where both want the processor."""
OUT_OF_MEMORY = 77
"""The status with which it ends when a rule left no memory for the worker itself."""


def main() -> int:
    """Answer until the judge closes the pipe; an order begins a run, what follows asks about it."""
    inbox, outbox, slate = json_pipe.MessageReader(int(sys.argv[1])), int(sys.argv[2]), WorkerStatus(int(sys.argv[3]))
    for each in (signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    die_with_parent()
    _settle()
    worker: _Worker | None = None
    while not inbox.is_closed:
        for message in inbox.receive():
            if "run" in message:
                worker = None
                gc.collect()  # what the run before left would be taken from what this one's rules may take
                worker = _Worker(message, slate)
                json_pipe.send(outbox, {"ready": True, "rules": worker.described})
            elif worker is not None:
                json_pipe.send(outbox, worker.advance(message))
    return 0


def guarded() -> int:
    """``main``, and a status of its own for a rule that left no memory for ourselves."""
    try:
        return main()
    except MemoryError:
        return OUT_OF_MEMORY


def _settle() -> None:
    """Have what every run needs out of the collector's sight: it would take longer to look through than most runs."""
    import leadline.judge.evaluator
    import leadline.judge.rule_plan  # noqa: F401

    gc.collect()
    gc.freeze()


class _Worker:
    """The rules of one worker.

    Attributes:
        described: What the judge must know of each rule, by alias, as plain JSON values; of one that cannot be made
            its ``error``. The judge itself runs nothing of a stranger's.
    """

    def __init__(self, order: dict[str, Any], slate: WorkerStatus) -> None:
        from leadline.judge.evaluator import Evaluator
        from leadline.judge.rule_plan import resolve_rule

        self.described: dict[str, dict[str, Any]] = {}
        specs = [RuleSpec(**each) for each in order["rules"]]
        places = {spec.alias: place for place, spec in enumerate(specs)} | {"": -1}
        if order["is_custom"]:
            os.nice(max(0, _CUSTOM_NICE - os.nice(0)))
        _limit_memory(order["memory_bytes"])
        rules = []
        for spec in specs:
            slate.write(places[spec.alias])
            try:
                rule = resolve_rule(spec)
                self.described[spec.alias] = _describe(rule, order["name"])
                rules.append((spec.alias, rule))
            except LeadlineError as error:
                self.described[spec.alias] = {"error": str(error)}
        slate.write(-1)
        self._judging = Evaluator(
            order["run"],
            rules,
            started_ns=order["started_ns"],
            mark=lambda alias: slate.write(places[alias]),
            is_over=order["is_over"],
        )

    def advance(self, message: dict[str, Any]) -> dict[str, Any]:
        from leadline.judge.evaluator import to_message

        return to_message(
            self._judging.advance(is_over=message["is_over"], gone=message["gone"], most_seconds=_MOST_SECONDS)
        )


def _describe(rule: Rule, run_name: str) -> dict[str, Any]:
    """What the judge must know of a rule.

    Raises:
        ConfigurationError: It raises where it should say so.
    """
    import msgspec

    from leadline.errors import ConfigurationError

    try:
        return {
            "parameters": msgspec.structs.asdict(rule),
            "explains": list(rule.explains),
            "needs": [asdict(each) for each in rule.needs().tensors],
            "has_phases": bool(rule.needs().phases),
            "implied": list(rule.implied_actions(run_name)),
            "product": rule.product,
        }
    except Exception as error:
        raise ConfigurationError(f"{rule.name}: {type(error).__name__}: {error}") from error


def _limit_memory(limit_bytes: int) -> None:
    """So much more address space than is used now, so that a rule that wants more gets a ``MemoryError``."""
    with open("/proc/self/statm", "rb") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = used + limit_bytes
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


if __name__ == "__main__":
    sys.exit(guarded())
