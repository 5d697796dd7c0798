"""Logs of trainings that ran without Leadline, judged by the default rules that need no more than a log holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from leadline.judge.judge import judge_run
from leadline.judge.rule_plan import resolve_rules
from leadline.logs.training_log import TrainingLog
from leadline.logs.write_run import collections_of, write_run
from leadline.records.manifest import RuleSpec
from leadline.rules import Rule
from leadline.rules.registry import DEFAULT


def write_judged_run(log: TrainingLog, run: str, *, source: str, rules: Iterable[RuleSpec] = ()) -> list[str]:
    """Write a log as a run, with the results of the rules that it can be judged by.

    Args:
        run: The run directory, which must not exist.
        source: Where the log is.
        rules: Further rules, which are evaluated in any case.
    Returns:
        The default rules that are left out, as a log does not hold what they need.
    Raises:
        RunExistsError: The run directory exists.
        ConfigurationError: A rule or one of its parameters is invalid.
        OSError: The run cannot be written.
    """
    held = {collection for name in log.names for collection in collections_of(name, is_supervised=False)}
    default = resolve_rules([RuleSpec(name, name, source="default") for name in DEFAULT])
    judged = [spec for spec, rule in default if can_judge(rule, held)]
    judged += [spec for spec, _ in resolve_rules(rules)]
    write_run(log, run, source=source, rules=judged)
    judge_run(run, write=True)
    return [spec.alias for spec, rule in default if not can_judge(rule, held)]


def can_judge(rule: Rule, held: Collection[str]) -> bool:
    """Return whether a rule needs no more than a log holds.

    Args:
        held: The collections of the log's numbers.
    """
    needs = rule.needs()
    needed = {need.collection for need in needs.tensors if not need.is_optional}
    names_metrics = any(need.collection == "metrics" for need in needs.tensors)
    return needed <= {"all", *held} and (bool(needed) or names_metrics)
