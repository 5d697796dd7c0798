"""Resolution of the rules of a run, and the captures that they need; done before the training starts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Final

from msgspec import structs

from leadline.actions.registry import find_action
from leadline.config.parameters import read_parameters
from leadline.config.presets import FIRST_STEPS
from leadline.errors import ConfigurationError, UnknownNameError, located
from leadline.records.manifest import ActionSpec, RuleSpec
from leadline.records.metric_roles import role_in
from leadline.records.names import EVERY_RULE, JOB, is_module_collection
from leadline.records.needs import Needs, TensorNeed
from leadline.records.plan import CaptureItem, Schedule
from leadline.rules.registry import DEFAULT, canonical, find_rule
from leadline.rules.rule import Rule

_EVERY_STEP: Final = 1
_LOGGED: Final = ("metrics", "scalars")
"""The collections of what a script logs."""
_CHEAP: Final = frozenset({"value", "nan_count", "nonfinite_count"})
"""Statistics that may be captured at every step."""


def default_rules(preset: str = "standard") -> list[RuleSpec]:
    """Return the rules that are evaluated by default; the preset ``sagemaker`` has Debugger's only default rule."""
    if preset == "sagemaker":
        return [RuleSpec("profiler_report", "profiler_report", source="preset")]
    return [RuleSpec(name, name) for name in DEFAULT]


def named(spec: RuleSpec) -> RuleSpec:
    """Return a specification with an alias: its own, or else Leadline's name of the rule or the name of its class."""
    if spec.alias:
        return spec
    name = canonical(spec.rule)
    alias = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.rpartition(":")[2]).lower()
    return replace(spec, alias=alias)


def resolve_rules(specs: Iterable[RuleSpec], file: str = "") -> list[tuple[RuleSpec, Rule]]:
    """Resolve rule specifications to rules, each with its specification as it will be recorded.

    Args:
        file: The configuration file, for errors in its tables.
    Returns:
        Pairs in the order given; the specification has an alias, Leadline's name of the rule (not Amazon's) and the
        parameters as the rule has them.
    Raises:
        UnknownNameError: A rule or parameter does not exist.
        ConfigurationError: A parameter is invalid, a rule file cannot be imported, or two rules share a name.
    """
    resolved: dict[str, tuple[RuleSpec, Rule]] = {}
    for spec in map(named, specs):
        with located(f"{file}: rules.{spec.alias}") if file and spec.source == "config" else nullcontext():
            rule = resolve_rule(spec)
        if spec.alias in resolved:
            raise ConfigurationError(
                f"two rules are named {spec.alias!r}; give one another name: --rule OTHER={spec.rule}"
            )
        if "/" in spec.alias or not spec.alias.strip(". ") or spec.alias in (EVERY_RULE, JOB):
            raise ConfigurationError(f"{spec.alias!r} is not a valid name of a rule; use --rule NAME={spec.rule}")
        resolved[spec.alias] = (_recorded(spec, rule), rule)
    return list(resolved.values())


def resolve_rule(spec: RuleSpec) -> Rule:
    """Resolve one rule specification.

    Raises:
        As ``resolve_rules``.
    """
    kind = find_rule(spec.rule, spec.folder)
    try:
        parameters = read_parameters(kind, spec.parameters)
        _check_required(spec, kind, parameters)
        rule = kind(**parameters)
        _check_needs(rule)
    except ConfigurationError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{spec.rule}: {error}") from error
    except Exception as error:
        raise ConfigurationError(f"{spec.rule}: {type(error).__name__}: {error}") from error
    return rule


def _check_required(spec: RuleSpec, kind: type[Rule], parameters: Mapping[str, object]) -> None:
    """Refuse a rule without a parameter that it needs.

    Raises:
        ConfigurationError: A parameter is missing.
    """
    for field in structs.fields(kind):
        if field.required and field.name not in parameters:
            option = f"--rule {spec.rule}:{field.name}={field.name.upper()}"
            raise ConfigurationError(f"{spec.rule} needs the parameter {field.name}; write {option}")


def _recorded(spec: RuleSpec, rule: Rule) -> RuleSpec:
    parameters = {name: getattr(rule, name) for name in spec.parameters}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in parameters.items()}
    return replace(spec, rule=canonical(spec.rule), parameters=plain)


def check_runs(rules: Iterable[tuple[RuleSpec, Rule]], root: str) -> None:
    """Refuse rules that compare with runs that do not exist.

    Args:
        root: The folder that will contain the run, in which the names are looked up.
    Raises:
        RunNotFoundError: There is no such run; the nearest name is suggested.
    """
    for _, rule in rules:
        for name in rule.needs().runs:
            from leadline.reader.find_runs import find_run

            find_run(name, root)


def plan(rules: Iterable[tuple[RuleSpec, Rule]], actions: Sequence[ActionSpec]) -> tuple[CaptureItem, ...]:
    """Return the capture items that rules need.

    A need without an interval becomes an item with an empty schedule (``Schedule()``), which takes the interval of
    its collection from the preset. Where an action affects the training (a stop), the cheap part of what the rule needs
    is captured at every step beside that: scalars and non-finite counts.

    Raises:
        UnknownNameError: There is no such action.
    """
    stopping = [action for action in actions if find_action(action.action, action.folder).affects_training]
    items = []
    for spec, rule in rules:
        implied = any(find_action(name).affects_training for name in rule.implied_actions(""))
        stops = implied or any(_acts_on(action, spec.alias) for action in stopping)
        for need in rule.needs().tensors:
            for captured in _captured(need):
                items += _items(captured, f"rule:{spec.alias}", stops=stops)
    return tuple(items)


def _acts_on(action: ActionSpec, alias: str) -> bool:
    """Return whether an action follows the findings of a rule; one that mirrors every status needs no more data."""
    return action.rule in (EVERY_RULE, alias) and "IssuesFound" in action.statuses


def _captured(need: TensorNeed) -> tuple[TensorNeed, ...]:
    """Return the needs by what is captured: a role is one of logged numbers, which their names tell while they come."""
    is_of_role = need.collection is not None and bool(role_in([need.collection]))
    return tuple(replace(need, collection=name) for name in _LOGGED) if is_of_role else (need,)


def _items(need: TensorNeed, source: str, *, stops: bool) -> list[CaptureItem]:
    """Return the items for a need.

    Args:
        stops: Whether a finding of the rule stops the training.
    """
    every = need.every if need.every is not None or need.end is None else _EVERY_STEP
    is_front_loaded = every is not None and every > _EVERY_STEP and need.end is None and not need.raw
    schedule = Schedule(every=every, end=need.end, steps=FIRST_STEPS if is_front_loaded else ())
    item = CaptureItem(
        collection=need.collection,
        regex=need.regex,
        statistics=need.statistics,
        raw=need.raw,
        schedule=schedule,
        modes=("train", "eval", "predict") if need.modes == ("global",) else need.modes or ("train",),
        source=source,
    )
    cheap = tuple(filter(_CHEAP.__contains__, need.statistics))
    is_hooked = need.collection is not None and is_module_collection(need.collection)
    if not stops or not cheap or is_hooked or need.every is not None or need.end is not None:
        return [item]
    raised = replace(item, statistics=cheap, raw=False, schedule=Schedule(every=_EVERY_STEP))
    return [item, raised]


def _check_needs(rule: Rule) -> None:
    """Refuse invalid needs.

    Raises:
        ConfigurationError: They are invalid, or name statistics that do not exist.
    """
    from leadline.statistics.definitions import find_statistic

    needs = rule.needs()
    if not isinstance(needs, Needs):
        raise ConfigurationError(f"{rule.name}: needs() must return Needs, not {type(needs).__name__}")
    for name in {name for need in needs.tensors for name in need.statistics}:
        try:
            find_statistic(name)
        except UnknownNameError as error:
            raise UnknownNameError("statistic", name, error.known, hint=f"needed by {rule.name}") from None
    if not needs.tensors and needs.scan_seconds is None:
        raise ConfigurationError(
            f"{rule.name}: needs() asks for nothing; name statistics of a collection, or scan_seconds"
        )
