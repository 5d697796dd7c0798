"""Conversion of rule and action instances to classes and parameters."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from leadline.actions.stop_training import StopTraining
from leadline.actions.webhook import Webhook
from leadline.config.options import ActionEntry
from leadline.config.run_config import RunConfig, action_entries, rule_spec
from leadline.errors import ConfigurationError
from leadline.records.manifest import RuleSpec
from leadline.rules.rule import Rule
from leadline.rules.tensors.vanishing_gradient import VanishingGradient

MINE = "from leadline.rules import Needs, Rule\nclass Mine(Rule):\n    limit: float = 1\n"


def test_texts_are_parsed_and_files_are_named_by_their_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_alone.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    import mine_alone  # type: ignore[import-not-found]

    given = RunConfig.from_options(rules=["dead_relu:threshold_layer=10", mine_alone.Mine(limit=2.5)]).rules
    assert given == (
        RuleSpec("", "dead_relu", {"threshold_layer": "10"}, os.getcwd(), "option"),
        RuleSpec("", f"{tmp_path}/mine_alone.py:Mine", {"limit": 2.5}, os.getcwd(), "option"),
    )
    sys.modules.pop("mine_alone")


class Strange(Rule):
    values: object = None


def test_parameters_that_cannot_travel_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="Strange: a parameter cannot be passed to another process"):
        rule_spec(Strange(values={1, 2}), "")


def test_classes_that_another_process_cannot_import_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Local(Rule):
        pass

    with pytest.raises(ConfigurationError, match="move the class to the top level of a separate file"):
        rule_spec(Local(), "")
    monkeypatch.setattr(Local, "__module__", "__main__")
    with pytest.raises(ConfigurationError, match="defined in the script itself"):
        rule_spec(Local(), "")
    with pytest.raises(ConfigurationError, match="is not a rule"):
        rule_spec(3, "")


def entries(on: object) -> list[tuple[str, str, object]]:
    return [(entry.trigger, entry.action, entry.arguments) for entry in action_entries(on, "here")]  # type: ignore[arg-type]


def test_actions_as_texts_tables_and_instances() -> None:
    stop, webhook = StopTraining(grace=5.0), Webhook(url="https://h/x?a=b,c=d", cooldown=60)
    parameters = {"url": "https://h/x?a=b,c=d", "cooldown": 60}
    assert entries("*=stop_training") == [("*", "stop_training", None)]
    assert entries(["*=stop_training", stop]) == [("*", "stop_training", None), ("*", "stop_training", {"grace": 5.0})]
    assert entries({"a@Error": webhook, "b": ["stop_training:grace=1", webhook, {"action": "tracker"}]}) == [
        ("a@Error", "webhook", parameters),
        ("b", "stop_training", "grace=1"),
        ("b", "webhook", parameters),
        ("b", "tracker", {}),
    ]
    assert entries([{"a": "stop_training"}, "b=tracker"]) == [("a", "stop_training", None), ("b", "tracker", None)]
    (entry,) = action_entries([stop], "here")
    assert entry == ActionEntry("*", "", "stop_training", {"grace": 5.0}, "here", "option", "on=*")


@pytest.mark.parametrize("given", [[3], {"a": VanishingGradient()}, {"a": [None]}])
def test_other_objects_are_refused(given: object) -> None:
    with pytest.raises(ConfigurationError, match="is not an action: pass a text, or an instance"):
        entries(given)
