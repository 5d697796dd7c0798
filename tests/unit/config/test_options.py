"""The language of options, and its one clear line for what is wrong."""

from __future__ import annotations

import pytest

from leadline.config.options import parse_action, parse_capture, parse_rule, parse_spec
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.records.plan import Schedule


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


def test_actions() -> None:
    option = parse_action("exploding_tensor@IssuesFound=stop_training:grace=5")
    assert (option.rule, option.status, option.action) == ("exploding_tensor", "IssuesFound", "stop_training")
    assert option.parameters == {"grace": "5"}
    assert parse_action("*=stop_training").status == "IssuesFound"


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
        ("default", "is not captured by this version"),
        ("gradients:modes=eval", "gradients are captured in train steps only"),
        ("gradients:evry=1", "did you mean 'every'"),
        ("gradients:every=0", "every must be at least 1, not 0"),
        ("gradients:every=x", "every must be a whole number, not 'x'"),
        ("gradients:every_seconds=-1", "every_seconds must be above 0"),
        ("gradients:statistics=mean,abs_maen", "no statistic named 'abs_maen'; did you mean 'abs_me"),
        ("gradients:raw=perhaps", "raw must be true or false"),
        ("gradients:regex=(", "is no regular expression"),
        ("gradients:start=5,end=5", "end (5) must be above start (5)"),
        ("gradients:every", "'every' is no key=value"),
        ("gradients:every=1,every=2", "gives 'every' twice"),
        ("gradients:modes=trian", "did you mean 'train'"),
        (":every=1", "begins with no name"),
    ],
)
def test_wrong_capture_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_capture(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["stop_training", "rule=", "=stop_training"])
def test_wrong_actions(text: str) -> None:
    with pytest.raises(ConfigurationError, match="RULE=ACTION"):
        parse_action(text)


def test_unknown_status() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'IssuesFound'"):
        parse_action("exploding_tensor@IssueFound=stop_training")


def test_a_status_that_no_action_follows_yet_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="actions follow IssuesFound only in this version, not Error"):
        parse_action("exploding_tensor@Error=stop_training")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gradeints:regex=fc", "did you mean 'gradients'"),
        ("mine:every=3", "a collection of your own needs regex= or modules="),
        ("mine:modules=(", "modules '(' is no regular expression"),
    ],
)
def test_collections_of_the_users_own_say_what_they_select(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_capture(text)
    assert message in str(caught.value)


def test_what_a_module_holds_is_selected_by_its_name() -> None:
    item = parse_capture("conv_weights:modules=^block\\.0$")
    assert (item.collection, item.custom) == (None, "conv_weights")
    own = ["gradient/block.0.weight", "AdamW/exp_avg/block.0.weight", "block.0_output_3", "block.0.bias"]
    others = ["block.0.deep.weight", "block.0.relu_output_0", "weight", "Net_output_0", "loss"]
    assert [item.selects(name, frozenset()) for name in own + others] == [True] * 4 + [False] * 5
