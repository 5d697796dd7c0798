"""What ``leadline judge`` judges: the runs of its arguments, each with its rules, and what is left out."""

from __future__ import annotations

import os
from collections.abc import Sequence

from leadline.errors import DamagedRunError, RunNotFoundError
from leadline.judge.engines.engine import Judged, Task
from leadline.judge.rule_changes import rules_of
from leadline.judge.rule_entry import RuleResult
from leadline.judge.rule_plan import default_rules
from leadline.judge.run_trust import RunTrust
from leadline.reader.find_runs import find_run, find_runs, read_manifest
from leadline.records.manifest import RuleSpec


def find_judged(arguments: Sequence[str] | None) -> tuple[list[str], list[Judged]]:
    """The runs of the arguments; and existing paths that are no runs, as a shell pattern may yield them."""
    paths: dict[str, None] = {}
    refused = []
    for argument in arguments or (None,):
        try:
            paths |= dict.fromkeys([find_run()] if argument is None else find_runs(argument))
        except RunNotFoundError:
            if argument is None or not os.path.exists(argument) or len(arguments or ()) == 1:
                raise
            refused.append(Judged(os.path.abspath(argument), problem=f"{argument} is not a run and contains none"))
    return list(paths), refused


def tasks_of(
    runs: Sequence[str], given: Sequence[RuleSpec], trust: RunTrust
) -> tuple[list[Task], dict[str, tuple[RuleResult, ...]], list[Judged]]:
    """The runs to judge with their rules; the results of rules that are left out; and runs that cannot be read."""
    tasks, left_out, refused = [], {}, []
    for run in runs:
        try:
            manifest = read_manifest(run)
            of_run = () if given else rules_of(run, manifest)
        except DamagedRunError as error:
            refused.append(Judged(run, problem=str(error)))
            continue
        rules = tuple(given) or of_run or tuple(default_rules())
        why = {} if given else trust.left_out(rules, manifest)
        tasks.append(Task(run, tuple(spec for spec in rules if spec.alias not in why), is_own=bool(of_run)))
        if why:
            specs = (spec for spec in rules if spec.alias in why)
            left_out[run] = tuple(_left_out(spec, why[spec.alias]) for spec in specs)
    return tasks, left_out, refused


def _left_out(spec: RuleSpec, why: str) -> RuleResult:
    return RuleResult(spec.alias, spec.rule, spec.parameters, "Stopped", "undecided", why, 0, ())
