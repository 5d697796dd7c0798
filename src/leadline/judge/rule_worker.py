"""The rule worker: a process that evaluates rules, isolated from the judge if one hangs, crashes or leaks memory."""

from __future__ import annotations

import gc
import mmap
import os
import resource
import struct
import sys
from dataclasses import asdict

from leadline.errors import LeadlineError
from leadline.judge.worker_messages import EvaluationAnswer, EvaluationRequest, RuleDescription, RuleSetup
from leadline.process import messages
from leadline.process.interpreter import import_from
from leadline.records.manifest import RuleSpec
from leadline.rules.rule import Rule

_MAX_SECONDS = 0.25
"""After so long a worker reports what it has, even if there is more to evaluate."""
_CUSTOM_RULE_NICE = 10
"""Custom rules have a lower priority than the training."""
STATUS_DESCRIPTOR = 5
"""The descriptor of the memory that it shares with the judge."""
_STATUS_FORMAT = struct.Struct("<qqi")
OUT_OF_MEMORY = 77
"""The exit status after a rule left no memory for the worker itself."""


def main() -> int:
    """Answer the judge until it closes the pipe; a setup message starts a run, further ones ask for evaluations."""
    messages.become_worker()
    status = WorkerStatus(STATUS_DESCRIPTOR)
    _preload()
    worker: _Worker | None = None
    for message in messages.incoming():
        if "run" in message:
            worker = None
            gc.collect()  # garbage of the previous run would count against the memory limit of this one
            worker = _Worker(message, status)
            messages.send({"ready": True, "rules": worker.described})
        elif worker is not None and "remove" in message:
            worker.remove(message["remove"])
        elif worker is not None:
            messages.send(worker.advance(message))
    return 0


def guarded() -> int:
    """Run ``main``, with an exit status of its own if a rule left no memory for the worker itself."""
    try:
        return main()
    except MemoryError:
        return OUT_OF_MEMORY


def _preload() -> None:
    """Import what every run needs, and exclude it from garbage collection, which would take longer than most runs."""
    import leadline.judge.evaluator
    import leadline.judge.rule_plan  # noqa: F401

    gc.collect()
    gc.freeze()


class WorkerStatus:
    """The number of evaluations, the current rule and step, in memory that the judge can read if the worker hangs."""

    def __init__(self, descriptor: int) -> None:
        os.ftruncate(descriptor, mmap.PAGESIZE)
        self.descriptor, self._memory = descriptor, mmap.mmap(descriptor, mmap.PAGESIZE)
        self._count = 0

    def write(self, rule: int, step: int = -1) -> None:
        """Record which rule is being evaluated, by its index, and at which step; -1: none."""
        self._count += 1
        _STATUS_FORMAT.pack_into(self._memory, 0, self._count, step, rule + 1)

    def read(self) -> tuple[int, int, int]:
        """Return the number of writes, and the index and step of the rule that is being evaluated; -1: none."""
        count, step, number = _STATUS_FORMAT.unpack_from(self._memory, 0)
        return int(count), int(number) - 1, int(step)

    def close(self) -> None:
        """Release the memory."""
        self._memory.close()
        os.close(self.descriptor)


class _Worker:
    """The rules of one worker.

    Attributes:
        described: What the judge must know of each rule, by alias, as plain JSON values; ``error`` for a rule that
            cannot be constructed. The judge itself never executes custom code.
    """

    def __init__(self, setup: RuleSetup, status: WorkerStatus) -> None:
        from leadline.config.secrets import scrub
        from leadline.judge.evaluator import Evaluator
        from leadline.judge.rule_plan import resolve_rule
        from leadline.reader.pandas_import import skip_pandas_import

        self.described: dict[str, RuleDescription] = {}
        specs = [RuleSpec(**rule) for rule in setup["rules"]]
        places = {spec.alias: place for place, spec in enumerate(specs)} | {"": -1}
        if setup["is_custom"]:
            os.nice(max(0, _CUSTOM_RULE_NICE - os.nice(0)))
            import_from(spec.folder for spec in specs)
        else:
            skip_pandas_import()  # custom rules may convert data frames
        _limit_memory(setup["memory_bytes"])
        rules = []
        for spec in specs:
            status.write(places[spec.alias])
            try:
                rule = resolve_rule(spec)
                self.described[spec.alias] = _describe(rule, setup["name"])
                rules.append((spec.alias, rule))
            except LeadlineError as error:
                self.described[spec.alias] = {"error": scrub(str(error))}
        status.write(-1)
        self._judging = Evaluator(
            setup["run"],
            rules,
            started_ns=setup["started_ns"],
            mark=lambda alias, step: status.write(places[alias], step),
            is_over=setup["is_over"],
        )

    def remove(self, aliases: list[str]) -> None:
        """Evaluate some of the rules no longer."""
        self._judging.remove(aliases)

    def advance(self, message: EvaluationRequest) -> EvaluationAnswer:
        from leadline.judge.evaluator import to_message

        return to_message(
            self._judging.advance(is_over=message["is_over"], gone=message["gone"], max_seconds=_MAX_SECONDS)
        )


def _describe(rule: Rule, run_name: str) -> RuleDescription:
    """Return what the judge must know of a rule.

    Raises:
        ConfigurationError: A method of the rule raised.
    """
    import msgspec

    from leadline.errors import ConfigurationError

    try:
        return {
            "parameters": msgspec.structs.asdict(rule),
            "explains": list(rule.explains),
            "severity": rule.severity,
            "needs": [asdict(need) for need in rule.needs().tensors],
            "has_phases": bool(rule.needs().phases),
            "implied": list(rule.implied_actions(run_name)),
            "product": rule.product,
        }
    except Exception as error:
        raise ConfigurationError(f"{rule.name}: {type(error).__name__}: {error}") from error


def _limit_memory(limit_bytes: int) -> None:
    """Limit the address space beyond what is used now, so that a rule that wants more gets a ``MemoryError``."""
    with open("/proc/self/statm", "rb") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = used + limit_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


if __name__ == "__main__":
    sys.exit(guarded())
