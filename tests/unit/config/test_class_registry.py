"""Lookup of user classes by path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from leadline.actions import Action
from leadline.config.class_registry import find_class
from leadline.errors import ConfigurationError, UnknownNameError

MINE = """
from next_door import OUTCOME
from leadline.actions import Action, Outcome

class Mine(Action, frozen=True, kw_only=True):
    def run(self, context):
        return Outcome(OUTCOME)

class Other:
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "next_door.py").write_text("OUTCOME = 'done'")
    (tmp_path / "broken.py").write_text("\n1 / 0\n")
    (tmp_path / "slip.py").write_text("\nclass:\n")
    return str(tmp_path)


def test_a_class_of_a_file_is_found_relative_to_a_folder(folder: str) -> None:
    mine = find_class("mine.py:Mine", Action, "action", folder)
    assert issubclass(mine, Action)
    assert mine().run(None).outcome == "done"  # type: ignore[arg-type]


def test_a_class_of_a_module_is_found() -> None:
    assert find_class("collections.abc:Mapping", Mapping, "mapping") is Mapping


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("nowhere.py:Mine", ConfigurationError, "no such action file: .*nowhere.py"),
        (
            "mine.py:Other",
            ConfigurationError,
            "mine.py:Other is not an action: it must be a subclass of leadline.actions.Action",
        ),
        ("mine.py:Mime", UnknownNameError, "no action named 'Mime'; did you mean 'Mine'?"),
        ("broken.py:Mine", ConfigurationError, "cannot import the action file: .*broken.py:2: ZeroDivisionError"),
        ("slip.py:Mine", ConfigurationError, "cannot import the action file: .*slip.py:2: SyntaxError"),
        ("no.such.module:Mine", ConfigurationError, "cannot import .*No module named"),
    ],
)
def test_a_failed_lookup_is_reported_in_one_line(folder: str, path: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        find_class(path, Action, "action", folder)
