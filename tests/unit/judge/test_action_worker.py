"""A courier: what it makes of an order, what it tells of an action, and what it keeps to itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.judge.action_worker import ActionWorker
from leadline.records.notification import Notification, TensorSnapshot
from leadline.testing.runs import Capture, RunWriter

SECRET = "s3cret-Key_0123456789"
ACTIONS = """
from leadline.actions import Action, RetryLaterError, Outcome, RejectedError

class Says(Action, frozen=True, kw_only=True):
    text: str = "done"
    def describe(self, occasion):
        return f"would say {self.text}"
    def run(self, occasion):
        return Outcome(f"{self.text} {occasion.notice.tensors}", 3, "17", f"said {self.text}")

class Silent(Says, frozen=True, kw_only=True):
    wants_snapshot = False

class Raises(Action, frozen=True, kw_only=True):
    kind: str = "ValueError"
    text: str = "no"
    def run(self, occasion):
        if self.kind == "later":
            raise RetryLaterError(self.text, 7.0)
        if self.kind == "refused":
            raise RejectedError(self.text)
        raise {"ValueError": ValueError, "OSError": OSError, "SystemExit": SystemExit}[self.kind](self.text)
    def close(self):
        raise ValueError(self.text)
"""
FINDING = Notification(
    "e/opened/7",
    "finding",
    "run",
    "/run",
    "IssuesFound",
    0,
    rule="e",
    step=7,
    worker="rank0-1",
    tensors=(TensorSnapshot("loss"),),
)


@pytest.fixture
def hire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "mine.py").write_text(ACTIONS)
    run = RunWriter(tmp_path / "run").write_all([Capture(7, {"loss": {"value": 0.25}})]).path
    monkeypatch.setenv("SECRET", SECRET)

    def made(name: str, **parameters: Any) -> ActionWorker:
        return ActionWorker(
            {"run": run, "action": f"mine.py:{name}", "parameters": parameters, "folder": str(tmp_path)}
        )

    return made


def deliver(courier: ActionWorker, notice: Notification = FINDING) -> dict[str, Any]:
    courier.prepare({"notice": notice.to_dict(), "workers": [], "now_ns": 5})
    return courier.deliver()


def test_it_tells_its_manners_first(hire: Any) -> None:
    said = hire("Says", cooldown="60", episodes="once", retries=2, backoff=0.5, timeout=9.0).said
    assert said["manners"] == {
        "dry_run": False,
        "cooldown": 60.0,
        "is_once": True,
        "retries": 2,
        "backoff": 0.5,
        "timeout": 9.0,
    }
    assert said["is_volatile"] is False


def test_it_tells_what_the_action_did(hire: Any) -> None:
    answer = deliver(hire("Silent"))
    assert (answer["step"], answer["request"], answer["announcement"]) == (3, "17", "said done")
    assert "statistics={}" in answer["outcome"]


def test_a_finding_comes_with_what_was_captured(hire: Any) -> None:
    assert "statistics={'value': 0.25}" in deliver(hire("Says"))["outcome"]


def test_a_run_that_cannot_be_read_keeps_nobody_from_being_told(hire: Any, tmp_path: Path) -> None:
    courier = hire("Says")
    (tmp_path / "run" / "manifest.json").write_text("{")
    assert deliver(courier)["outcome"].startswith("done (TensorSnapshot(name='loss'")


def test_secrets_reach_the_action_and_nothing_that_it_says(hire: Any) -> None:
    answer = deliver(hire("Says", text="$SECRET"))
    assert answer["outcome"].startswith("$SECRET ")
    assert answer["announcement"] == "said $SECRET"
    assert SECRET not in repr(answer)
    for kind in ("ValueError", "refused", "later", "OSError", "SystemExit"):
        assert SECRET not in repr(deliver(hire("Raises", kind=kind, text="$SECRET")))


def test_a_dry_run_only_describes_and_with_the_names_of_variables(hire: Any) -> None:
    assert deliver(hire("Says", text="$SECRET", dry_run=True))["outcome"] == "dry run: would say $SECRET"


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("ValueError", {"error": "ValueError: two lines (mine.py:22)"}),
        ("OSError", {"error": "two lines (mine.py:22)"}),
        ("SystemExit", {"error": "SystemExit: two lines (mine.py:22)"}),
        ("refused", {"error": "two lines", "is_final": True}),
        ("later", {"error": "two lines", "after_seconds": 7.0}),
    ],
)
def test_what_an_action_raises_is_told_in_one_line(hire: Any, kind: str, answer: dict[str, Any]) -> None:
    courier = hire("Raises", kind=kind, text="two\nlines")
    assert deliver(courier) == answer
    assert courier.close() == {"error": "ValueError: two lines (mine.py:24)"}


def test_what_it_says_is_bounded(hire: Any) -> None:
    assert len(deliver(hire("Says", text="x" * 5000))["outcome"]) <= 300


@pytest.mark.parametrize(
    ("name", "parameters", "why"),
    [
        ("Says", {"text": "$UNSET_HERE"}, "$UNSET_HERE is not set"),
        ("Says", {"txet": "x"}, "no parameter of says named 'txet'"),
        ("Syas", {}, "no action named 'Syas'"),
    ],
)
def test_an_action_that_cannot_be_made_says_why(hire: Any, name: str, parameters: dict[str, Any], why: str) -> None:
    said = hire(name, **parameters).said
    assert why in said["error"]
    assert said["is_final"]
