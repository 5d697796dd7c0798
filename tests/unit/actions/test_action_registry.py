"""Lookup of actions by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from leadline.actions import registry
from leadline.actions.stop_training import StopTraining
from leadline.errors import ConfigurationError, UnknownNameError


def test_every_built_in_name_has_its_own_class() -> None:
    assert registry.find_action("stop_training") is StopTraining
    assert registry.find_action("StopTraining") is StopTraining
    assert len({registry.find_action(name) for name in registry.BUILT_IN}) == len(registry.BUILT_IN)


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'notify'"):
        registry.find_action("notfy")


def test_an_action_of_a_plugin_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("page", "leadline.actions.stop_training:StopTraining", "leadline.actions")
    monkeypatch.setitem(vars(registry.REGISTRY), "_plugins", {entry.name: entry.value})
    assert registry.find_action("page") is StopTraining
    assert "page" in registry.REGISTRY.names()
    assert not registry.is_built_in("page")
    with pytest.raises(UnknownNameError, match="did you mean 'page'"):
        registry.find_action("pagee")


def test_custom_actions_are_found_by_their_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from leadline.actions import Action\nclass Mine(Action, frozen=True, kw_only=True):\n    path: str\n"
    )
    action = registry.make_action("mine.py:Mine", {"path": "x"}, str(tmp_path))
    assert action.retries == 5
    with pytest.raises(ConfigurationError, match=r"mine\.py:Mine needs path: write mine\.py:Mine:path=PATH"):
        registry.make_action("mine.py:Mine", {}, str(tmp_path))
