"""Attribution of findings to their causes: by declaration, in order of time, to the root."""

from __future__ import annotations

from dataclasses import replace

from leadline.judge.causes import MAX_DISTANCE_STEPS, FiredRule, causes
from leadline.records.finding import Finding
from leadline.rules.registry import BUILT_IN, find_rule


def found(alias: str, step: int, *explains: str, last_step: int | None = None, rule: str = "") -> FiredRule:
    last = step if last_step is None else last_step
    finding = Finding(1, alias, step, last, last_step is None, 0, "it is so")
    return FiredRule(alias, rule or alias, (finding,), explains)


def test_the_earlier_finding_explains_the_later_if_it_says_so() -> None:
    nan, norm, other = found("nan", 40, "norm"), found("norm", 41), found("other", 41)
    assert causes([norm, nan, other]) == {"norm": "nan"}
    assert causes([found("nan", 42, "norm"), norm]) == {}
    assert causes([found("nan", 41, "norm"), norm]) == {"norm": "nan"}


def test_a_chain_is_followed_to_its_root() -> None:
    chain = [found("c", 12), found("b", 11, "c"), found("a", 10, "b")]
    assert causes(chain) == {"b": "a", "c": "a"}


def test_a_cause_that_took_several_captures_explains_what_fired_meanwhile() -> None:
    cut = found("cut", 2, "zero")
    assert causes([cut, found("zero", 1)]) == {}
    (finding,) = cut.findings
    since = FiredRule("cut", "cut", (replace(finding, since_step=0),), ("zero",))
    assert causes([since, found("zero", 1)]) == {"zero": "cut"}
    assert causes([since, found("zero", 0)]) == {"zero": "cut"}


def test_the_earliest_of_several_causes_is_chosen() -> None:
    assert causes([found("late", 9, "effect"), found("early", 5, "effect"), found("effect", 10)]) == {"effect": "early"}


def test_two_rules_that_explain_each_other() -> None:
    assert causes([found("a", 5, "b"), found("b", 5, "a")]) == {}
    assert causes([found("a", 5, "b"), found("b", 6, "a")]) == {"b": "a"}
    assert causes([found("a", 5, "b"), found("b", 5, "c"), found("c", 5, "a")]) == {}


def test_a_finding_that_closed_long_ago_explains_nothing() -> None:
    def effect(step: int) -> dict[str, str]:
        return causes([found("a", 5, "b", last_step=7), found("b", step)])

    assert effect(7 + MAX_DISTANCE_STEPS) == {"b": "a"}
    assert effect(8 + MAX_DISTANCE_STEPS) == {}


def test_rules_are_matched_by_name_and_not_by_alias() -> None:
    assert causes([found("mine", 5, "loss_spike"), found("spikes", 6, rule="loss_spike")]) == {"spikes": "mine"}


def test_built_in_rules_explain_only_existing_rules() -> None:
    for name in BUILT_IN:
        explained = set(find_rule(name).explains)
        assert explained <= set(BUILT_IN) - {name}, f"{name} explains {explained - set(BUILT_IN) or 'itself'}"


def test_large_inputs_explain_a_nan_only_by_what_grew_between_them() -> None:
    def declared(name: str, step: int) -> FiredRule:
        return found(name, step, *find_rule(name).explains)

    scale, grew, nan = declared("unscaled_input", 1), declared("exploding_gradient", 15), found("exploding_tensor", 21)
    assert causes([scale, nan]) == {}
    assert causes([scale, grew, nan]) == dict.fromkeys(("exploding_gradient", "exploding_tensor"), "unscaled_input")
