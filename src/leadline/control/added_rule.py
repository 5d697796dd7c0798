"""A rule added to a running job: its specification, and the captures that it needs in addition."""

from __future__ import annotations

import os
from dataclasses import replace

from leadline.config.presets import merge, preset_items
from leadline.errors import ConfigurationError
from leadline.judge.rule_plan import check_runs, plan, resolve_rules
from leadline.reader.run import Run
from leadline.records.documents import RuleSummary
from leadline.records.manifest import RuleSpec
from leadline.records.names import PRESETS
from leadline.records.plan import CaptureItem
from leadline.store.run_state import read_rule_summary


def added_rule(rule: RuleSpec, run: Run) -> tuple[RuleSpec, tuple[CaptureItem, ...]]:
    """Resolve a rule, and the needs of the rule that the run's own capture plan does not cover.

    Raises:
        ConfigurationError: A parameter is invalid, or the run has a rule of that name already.
        UnknownNameError: No rule or parameter has that name.
    """
    ((spec, resolved),) = resolve_rules([rule])
    if spec.alias in active_rules(run):
        raise ConfigurationError(f"{run.name} already has a rule named {spec.alias!r}; use an alias: OTHER={spec.rule}")
    check_runs([(spec, resolved)], os.path.dirname(run.uri))
    return spec, _missing(plan([(spec, resolved)], ()), run)


def active_rules(run: Run) -> dict[str, str]:
    """Return the rules of a run by alias, with those added while it ran."""
    summary = read_rule_summary(run.uri) or RuleSummary()
    added = {rule.name: rule.rule for rule in summary.rules}
    return {spec.alias: spec.rule for spec in run.manifest.rules} | added


def _missing(needs: tuple[CaptureItem, ...], run: Run) -> tuple[CaptureItem, ...]:
    """Capture items with the intervals of the run's preset, without those that its plan already contains."""
    preset = run.manifest.preset if run.manifest.preset in PRESETS else "standard"
    base = preset_items(preset)
    merged = merge(base, (), needs, root=os.path.dirname(run.uri)).items[len(base) :]
    known = {replace(item, source="") for item in run.manifest.plan.items}
    return tuple(item for item in merged if replace(item, source="") not in known)
