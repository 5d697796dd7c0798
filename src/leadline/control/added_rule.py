"""A rule that a running job is to be judged by, too: what it is, and what must be captured for it."""

from __future__ import annotations

import os
from dataclasses import replace

from leadline.config.options import parse_rule
from leadline.config.presets import merge, preset_items
from leadline.errors import ConfigurationError
from leadline.judge.rule_plan import check_runs, plan, recorded, resolve_rules
from leadline.reader.run import Run
from leadline.records.manifest import RuleSpec
from leadline.records.names import PRESETS
from leadline.records.plan import CaptureItem
from leadline.rules.registry import canonical
from leadline.store import layout
from leadline.store.documents import read_document


def added_rule(text: str, run: Run) -> tuple[RuleSpec, tuple[CaptureItem, ...]]:
    """The rule that words mean, and what of its needs the run's own plan leaves out.

    Args:
        text: ``[AS=]NAME[:key=value,…]``.
    Raises:
        ConfigurationError: It has another form, or the run has a rule of that name already.
        UnknownNameError: No rule or parameter has that name.
    """
    option = parse_rule(text)
    own = canonical(option.rule)
    alias = own if option.alias == parse_rule(option.rule).alias else option.alias
    spec = RuleSpec(alias, option.rule, option.parameters, os.getcwd(), "option")
    ((resolved, rule),) = resolve_rules([spec])
    if alias in judged_by(run):
        raise ConfigurationError(f"{run.name} has a rule named {alias!r} already; give it another name: OTHER={own}")
    check_runs([(resolved, rule)], os.path.dirname(run.uri))
    return recorded(spec, rule), _missing(plan([(resolved, rule)], ()), run)


def judged_by(run: Run) -> dict[str, str]:
    """The rules of a run, with those that it was given while it ran: alias and name."""
    summary = read_document(os.path.join(run.uri, layout.RULE_SUMMARY)) or {}
    told = {str(each["name"]): str(each["rule"]) for each in summary.get("rules", ())}
    return {each.alias: each.rule for each in run.manifest.rules} | told


def _missing(needs: tuple[CaptureItem, ...], run: Run) -> tuple[CaptureItem, ...]:
    """Wishes with the intervals of the run's preset; those that its plan fulfils are left out."""
    preset = run.manifest.preset if run.manifest.preset in PRESETS else "standard"
    base = preset_items(preset)
    merged = merge(base, (), needs, root=os.path.dirname(run.uri)).items[len(base) :]
    known = {replace(each, source="") for each in run.manifest.plan.items}
    return tuple(each for each in merged if replace(each, source="") not in known)
