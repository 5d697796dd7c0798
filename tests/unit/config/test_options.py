"""Syntax of options, and its errors."""

from __future__ import annotations

import pytest

from leadline.config.capture import capture_item, capture_table, parse_capture
from leadline.config.options import format_spec, parse_rule, parse_spec
from leadline.errors import ConfigurationError
from leadline.records.plan import Schedule
from leadline.statistics.definitions import BASIC


def test_the_first_colon_ends_the_name_and_commas_belong_to_values() -> None:
    assert parse_spec("dead_relu:tensor_regex=a,b:c,threshold=1", option="rule") == (
        "dead_relu",
        {"tensor_regex": "a,b:c", "threshold": "1"},
    )


@pytest.mark.parametrize(
    ("text", "alias", "rule", "parameters"),
    [
        ("vanishing_gradient", "", "vanishing_gradient", {}),
        ("VanishingGradient:threshold=1e-9", "", "VanishingGradient", {"threshold": "1e-9"}),
        ("mail=stalled_training:threshold=60", "mail", "stalled_training", {"threshold": "60"}),
        ("my_rules.py:LossAbove:limit=3", "", "my_rules.py:LossAbove", {"limit": "3"}),
        ("high=../a.b/my_rules.py:LossAbove", "high", "../a.b/my_rules.py:LossAbove", {}),
        ('dead_relu:{"tensor_regex": ["a,b=c"]}', "", "dead_relu", {"tensor_regex": ["a,b=c"]}),
        ("package.rules:LossAbove:limit=3", "", "package.rules:LossAbove", {"limit": "3"}),
    ],
)
def test_rules(text: str, alias: str, rule: str, parameters: dict[str, str]) -> None:
    option = parse_rule(text)
    assert (option.alias, option.rule, option.parameters) == (alias, rule, parameters)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({}, "r"),
        ({"threshold": 1e-7, "only_nan": True, "mode": None}, "r:threshold=1e-07,only_nan=true,mode=none"),
        ({"tensor_regex": ("a", "b:c")}, "r:tensor_regex=a,b:c"),
        ({"tensor_regex": ["conv{1,2}"]}, 'r:tensor_regex=["conv{1,2}"]'),
        ({"tensor_regex": ()}, "r:tensor_regex=[]"),
        ({"regex": "a,b=c"}, 'r:{"regex": "a,b=c"}'),
    ],
)
def test_parameters_are_written_as_json_only_where_plain_text_is_ambiguous(
    parameters: dict[str, object], text: str
) -> None:
    assert format_spec("r", parameters) == text


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("gradients:every=50,raw=false", {}),
        ("gradients:raw=true,statistics=l2", {"raw": True, "statistics": ["l2"]}),
        ("weights:steps=0,1,every=50", {"steps": [0, 1], "every": 50}),
        ("trees:raw=false", {"raw": False}),
        ("heads:modules=^head,every_seconds=2", {"modules": "^head", "every_seconds": 2.0}),
    ],
)
def test_the_table_of_a_capture_item_has_the_keys_that_are_not_defaults(text: str, table: dict[str, object]) -> None:
    item = parse_capture(text)
    assert capture_table(item) == (text.partition(":")[0], table)
    assert capture_item(text.partition(":")[0], table) == item


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
