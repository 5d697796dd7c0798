"""Conversion of rule and action instances to options."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from leadline.actions.registry import make_action
from leadline.actions.stop_training import StopTraining
from leadline.actions.webhook import Webhook
from leadline.config.instances import actions_to_options, rule_to_option
from leadline.config.options import parse_rule
from leadline.config.settings import action_option
from leadline.errors import ConfigurationError
from leadline.judge.action_resolution import resolve_actions
from leadline.judge.rule_plan import resolve_rule
from leadline.records.manifest import RuleSpec
from leadline.rules.losses.loss_not_decreasing import LossNotDecreasing
from leadline.rules.rule import Rule
from leadline.rules.tensors.similar_across_runs import SimilarAcrossRuns
from leadline.rules.tensors.vanishing_gradient import VanishingGradient

MINE = "from leadline.rules import Needs, Rule\nclass Mine(Rule):\n    limit: float = 1\n"


def parsed(text: str) -> Rule:
    option = parse_rule(text)
    return resolve_rule(RuleSpec(option.alias, option.rule, option.parameters))


@pytest.mark.parametrize(
    "rule",
    [
        VanishingGradient(),
        VanishingGradient(threshold=1e-9),
        LossNotDecreasing(use_losses_collection=False, tensor_regex=("a", "b"), mode="eval", num_steps=3),
        SimilarAcrossRuns(other_trials=("one", "two"), fires_on="similar"),
    ],
)
def test_the_option_of_a_rule_recreates_it(rule: Rule) -> None:
    assert parsed(rule_to_option(rule)) == rule


def test_texts_are_unchanged_and_files_are_named_by_their_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_alone.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    import mine_alone  # type: ignore[import-not-found]

    assert rule_to_option("dead_relu:threshold_layer=10") == "dead_relu:threshold_layer=10"
    assert rule_to_option(mine_alone.Mine(limit=2.5)) == f"{tmp_path}/mine_alone.py:Mine:limit=2.5"
    sys.modules.pop("mine_alone")


def test_classes_that_another_process_cannot_import_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Local(Rule):
        pass

    with pytest.raises(ConfigurationError, match="move the class to the top level of a separate file"):
        rule_to_option(Local())
    monkeypatch.setattr(Local, "__module__", "__main__")
    with pytest.raises(ConfigurationError, match="defined in the script itself"):
        rule_to_option(Local())
    with pytest.raises(ConfigurationError, match="is not a rule"):
        rule_to_option(3)


def test_actions_as_texts_and_tables() -> None:
    stop, webhook = StopTraining(grace=5.0), Webhook(url="https://h/x?a=b,c=d", cooldown=60)
    table = {"action": "webhook", "url": "https://h/x?a=b,c=d", "cooldown": 60}
    assert actions_to_options("*=stop_training") == ["*=stop_training"]
    assert actions_to_options(["*=stop_training", stop]) == [
        "*=stop_training",
        {"action": "stop_training", "grace": 5.0, "on": "*"},
    ]
    assert actions_to_options({"a@Error": webhook, "b": ["stop_training", webhook, {"action": "tracker"}]}) == [
        {**table, "on": "a@Error"},
        "b=stop_training",
        {**table, "on": "b"},
        {"action": "tracker", "on": "b"},
    ]
    assert actions_to_options([{"a": "stop_training"}, "b=tracker"]) == ["a=stop_training", "b=tracker"]


def test_the_table_of_an_action_recreates_it() -> None:
    webhook = Webhook(url="https://h/x?a=b,cooldown=d", authorization="Bearer $TOKEN", probe=False, retries=0)
    (table,) = actions_to_options({"a": webhook})
    assert isinstance(table, dict)
    option = action_option("a", {key: value for key, value in table.items() if key != "on"}, "on=a")
    (spec,) = resolve_actions([option], targets={})
    assert make_action(spec.action, spec.parameters) == webhook


@pytest.mark.parametrize("given", [[3], {"a": VanishingGradient()}, {"a": [None]}])
def test_other_objects_are_refused(given: object) -> None:
    with pytest.raises(ConfigurationError, match="is not an action: pass a text, or an instance"):
        actions_to_options(given)  # type: ignore[arg-type]
