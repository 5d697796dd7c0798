"""Rules made in code, in words that give the same rule again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from leadline.actions.registry import make_action
from leadline.actions.stop_training import StopTraining
from leadline.actions.webhook import Webhook
from leadline.config.instances import actions_in_words, in_words
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


def again(words: str) -> Rule:
    option = parse_rule(words)
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
def test_the_words_of_an_instance_give_it_again(rule: Rule) -> None:
    assert again(in_words(rule)) == rule


def test_words_stay_words_and_a_file_is_named_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_alone.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    import mine_alone  # type: ignore[import-not-found]

    assert in_words("dead_relu:threshold_layer=10") == "dead_relu:threshold_layer=10"
    assert in_words(mine_alone.Mine(limit=2.5)) == f"{tmp_path}/mine_alone.py:Mine:limit=2.5"
    sys.modules.pop("mine_alone")


def test_what_another_process_cannot_make_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Local(Rule):
        pass

    with pytest.raises(ConfigurationError, match="put the class at the top of a file of its own"):
        in_words(Local())
    monkeypatch.setattr(Local, "__module__", "__main__")
    with pytest.raises(ConfigurationError, match="defined in the script itself"):
        in_words(Local())
    with pytest.raises(ConfigurationError, match="is no rule"):
        in_words(3)


def test_actions_in_words_and_as_tables() -> None:
    stop, told = StopTraining(grace=5.0), Webhook(url="https://h/x?a=b,c=d", cooldown=60)
    table = {"action": "webhook", "url": "https://h/x?a=b,c=d", "cooldown": 60}
    assert actions_in_words("*=stop_training") == ["*=stop_training"]
    assert actions_in_words(["*=stop_training", stop]) == [
        "*=stop_training",
        {"action": "stop_training", "grace": 5.0, "on": "*"},
    ]
    assert actions_in_words({"a@Error": told, "b": ["stop_training", told, {"action": "tracker"}]}) == [
        {**table, "on": "a@Error"},
        "b=stop_training",
        {**table, "on": "b"},
        {"action": "tracker", "on": "b"},
    ]
    assert actions_in_words([{"a": "stop_training"}, "b=tracker"]) == ["a=stop_training", "b=tracker"]


def test_the_tables_of_instances_give_them_again() -> None:
    told = Webhook(url="https://h/x?a=b,cooldown=d", authorization="Bearer $TOKEN", probe=False, retries=0)
    (table,) = actions_in_words({"a": told})
    assert isinstance(table, dict)
    option = action_option("a", {key: each for key, each in table.items() if key != "on"}, "on=a")
    (spec,) = resolve_actions([option], targets={})
    assert make_action(spec.action, spec.parameters) == told


@pytest.mark.parametrize("given", [[3], {"a": VanishingGradient()}, {"a": [None]}])
def test_what_is_no_action_is_refused(given: object) -> None:
    with pytest.raises(ConfigurationError, match="is no action: give words, or an instance"):
        actions_in_words(given)  # type: ignore[arg-type]
