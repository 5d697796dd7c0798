"""Syntax of options, and its errors."""

from __future__ import annotations

import pytest

from leadline.config.options import parse_capture, parse_rule, parse_spec
from leadline.errors import ConfigurationError
from leadline.records.plan import Schedule
from leadline.statistics.definitions import BASIC


def test_the_first_colon_ends_the_name_and_commas_belong_to_values() -> None:
    spec = parse_spec("dead_relu:tensor_regex=a,b:c,threshold=1", option="rule")
    assert (spec.name, spec.parameters) == ("dead_relu", {"tensor_regex": "a,b:c", "threshold": "1"})


@pytest.mark.parametrize(
    ("text", "alias", "rule", "parameters"),
    [
        ("vanishing_gradient", "vanishing_gradient", "vanishing_gradient", {}),
        ("VanishingGradient:threshold=1e-9", "vanishing_gradient", "VanishingGradient", {"threshold": "1e-9"}),
        ("mail=stalled_training:threshold=60", "mail", "stalled_training", {"threshold": "60"}),
        ("my_rules.py:LossAbove:limit=3", "loss_above", "my_rules.py:LossAbove", {"limit": "3"}),
        ("high=../a.b/my_rules.py:LossAbove", "high", "../a.b/my_rules.py:LossAbove", {}),
        ("package.rules:LossAbove:limit=3", "loss_above", "package.rules:LossAbove", {"limit": "3"}),
    ],
)
def test_rules(text: str, alias: str, rule: str, parameters: dict[str, str]) -> None:
    option = parse_rule(text)
    assert (option.alias, option.rule, option.parameters) == (alias, rule, parameters)


def test_capture() -> None:
    item = parse_capture("gradients:every=10,start=5,end=100,statistics=l2,max,raw=true,regex=^conv")
    assert item.schedule == Schedule(every=10, start=5, end=100)
    assert (item.statistics, item.raw, item.regex) == (("l2", "max"), True, "^conv")


def test_capture_of_raw_tensors_alone_asks_for_no_statistics() -> None:
    assert parse_capture("weights:raw=true,every=1").statistics == ()
    assert "update_ratio" in parse_capture("weights").statistics
    assert parse_capture("losses").statistics == parse_capture("metrics").statistics == ("value",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gradient", "did you mean 'gradients'"),
        ("gradients:modes=eval", "gradients are captured in train steps only"),
        ("gradients:evry=1", "did you mean 'every'"),
        ("gradients:every=0", "every must be at least 1, not 0"),
        ("gradients:every=x", "every must be an integer, not 'x'"),
        ("gradients:every_seconds=-1", "every_seconds must be above 0"),
        ("gradients:statistics=mean,abs_maen", "no statistic named 'abs_maen'; did you mean 'abs_me"),
        ("gradients:raw=perhaps", "raw must be true or false"),
        ("gradients:regex=(", "is not a valid regular expression"),
        ("gradients:start=5,end=5", "end (5) must be above start (5)"),
        ("gradients:every", "'every' is not key=value"),
        ("gradients:every=1,every=2", "gives 'every' twice"),
        ("gradients:modes=trian", "did you mean 'train'"),
        (":every=1", "has no name"),
    ],
)
def test_an_invalid_capture_is_reported_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_capture(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gradeints:regex=fc", "did you mean 'gradients'"),
        ("mine:every=3", "a custom collection needs regex= or modules="),
        ("mine:modules=(", "modules '(' is not a valid regular expression"),
    ],
)
def test_custom_collections_need_a_selection(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_capture(text)
    assert message in str(caught.value)


def test_tensors_of_a_module_are_selected_by_its_name() -> None:
    item = parse_capture("conv_weights:modules=^block\\.0$")
    assert (item.collection, item.custom) == (None, "conv_weights")
    members = ["gradient/block.0.weight", "AdamW/exp_avg/block.0.weight", "block.0_output_3", "block.0.bias"]
    others = ["block.0.deep.weight", "block.0.relu_output_0", "weight", "Net_output_0", "loss"]
    assert [item.selects(name, frozenset()) for name in members + others] == [True] * 4 + [False] * 5


@pytest.mark.parametrize(
    ("text", "statistics", "raw"),
    [
        ("feature_importance", ("value",), False),
        ("average_shap:every=50", ("value", "abs_mean"), False),
        ("full_shap", (), True),
        ("trees", (), True),
        ("trees:statistics=max", ("max",), True),
        ("trees:raw=false", BASIC, False),
        ("default:every=1", BASIC, False),
    ],
)
def test_defaults_for_boosters_and_arrays(text: str, statistics: tuple[str, ...], raw: bool) -> None:
    item = parse_capture(text)
    assert (item.statistics, item.raw) == (statistics, raw)


@pytest.mark.parametrize("collection", ["feature_importance", "average_shap", "full_shap", "trees"])
def test_booster_collections_are_captured_in_rounds_only(collection: str) -> None:
    with pytest.raises(ConfigurationError, match="captured in train steps only"):
        parse_capture(f"{collection}:modes=eval")
