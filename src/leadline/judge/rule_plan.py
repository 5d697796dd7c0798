"""What the rules of a run are, and what must be captured for them; worked out before the training starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from leadline.config.parameters import read_parameters
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.judge.action_resolution import check_actions
from leadline.records.manifest import ActionSpec, RuleSpec
from leadline.records.names import EVERY_RULE, JOB, is_module_collection
from leadline.records.needs import Needs, TensorNeed
from leadline.records.plan import CaptureItem, Schedule
from leadline.rules.registry import canonical, find_rule
from leadline.rules.rule import Rule

_EVERY_STEP: Final = 1


def resolve_rules(specs: Sequence[RuleSpec]) -> list[tuple[RuleSpec, Rule]]:
    """The rules that specifications mean, each with its specification as it will be recorded.

    Returns:
        Pairs in the order given; in the specification the rule has its own name (not Amazon's) and the
        parameters are as the fields have them.
    Raises:
        UnknownNameError: A rule or parameter does not exist.
        ConfigurationError: A parameter is refused, a rule file does not import, or two rules share a name.
    """
    resolved = [(spec, resolve_rule(spec)) for spec in specs]
    aliases: set[str] = set()
    for spec, _ in resolved:
        if spec.alias in aliases:
            raise ConfigurationError(
                f"two rules are named {spec.alias!r}; give one another name: --rule OTHER={spec.rule}"
            )
        if "/" in spec.alias or not spec.alias.strip(". ") or spec.alias in (EVERY_RULE, JOB):
            raise ConfigurationError(f"{spec.alias!r} is no name for a rule; give it one: --rule NAME={spec.rule}")
        aliases.add(spec.alias)
    return [(recorded(spec, rule), rule) for spec, rule in resolved]


def resolve_rule(spec: RuleSpec) -> Rule:
    """The rule that one specification means.

    Raises:
        As ``resolve_rules``.
    """
    kind = find_rule(spec.rule, spec.folder)
    try:
        rule = kind(**read_parameters(kind, spec.parameters))
        _checked_needs(rule)
    except ConfigurationError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{spec.rule}: {error}") from error
    except Exception as error:
        raise ConfigurationError(f"{spec.rule}: {type(error).__name__}: {error}") from error
    return rule


def recorded(spec: RuleSpec, rule: Rule) -> RuleSpec:
    """A specification as the manifest has it."""
    parameters = {name: getattr(rule, name) for name in spec.parameters}
    plain = {name: list(each) if isinstance(each, tuple) else each for name, each in parameters.items()}
    return replace(spec, rule=canonical(spec.rule), parameters=plain)


def check_runs(rules: Iterable[tuple[RuleSpec, Rule]], root: str) -> None:
    """Refuse rules that compare with runs that are not there.

    Args:
        root: The folder below which the run will stand, and where their names are looked up.
    Raises:
        RunNotFoundError: There is no such run; the nearest name is suggested.
    """
    for _, rule in rules:
        for name in rule.needs().runs:
            from leadline.reader.find_runs import find_run

            find_run(name, root)


def plan(rules: Iterable[tuple[RuleSpec, Rule]], actions: Sequence[ActionSpec]) -> tuple[CaptureItem, ...]:
    """What must be captured for rules.

    A need without an interval becomes an item whose schedule says nothing (``Schedule()``): it has its collection's
    interval in the preset. A rule that is followed by an action is shown every step, but what modules take and give
    at the preset's: a forward hook at every step is nothing that an action may cause.
    """
    resolved = list(rules)
    check_actions(actions, [spec.alias for spec, _ in resolved])
    items = []
    for spec, rule in resolved:
        is_acted_on = bool(rule.implied_actions("")) or any(_acts_on(each, spec.alias) for each in actions)
        for need in _checked_needs(rule).tensors:
            is_hooked = need.collection is not None and is_module_collection(need.collection)
            is_each = (is_acted_on and not is_hooked) or need.end is not None
            every = need.every if need.every is not None else _EVERY_STEP if is_each else None
            items.append(_item(need, every, f"rule:{spec.alias}"))
    return tuple(items)


def _acts_on(action: ActionSpec, alias: str) -> bool:
    """Whether it waits for a rule's findings; one that mirrors every status is no reason to look oftener."""
    return action.rule in (EVERY_RULE, alias) and "IssuesFound" in action.statuses


def _item(need: TensorNeed, every: int | None, source: str) -> CaptureItem:
    modes = ("train", "eval", "predict") if need.modes == ("global",) else need.modes or ("train",)
    return CaptureItem(
        collection=need.collection,
        regex=need.regex,
        statistics=need.statistics,
        raw=need.raw,
        schedule=Schedule(every=every, end=need.end),
        modes=modes,
        source=source,
    )


def _checked_needs(rule: Rule) -> Needs:
    """A rule's needs, or an error that says what is wrong with them.

    Raises:
        ConfigurationError: They are none, or name statistics that do not exist.
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
    return needs
