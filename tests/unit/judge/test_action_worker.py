"""The action worker: construction of the action, its outcomes, and masked secrets."""

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
    def describe(self, context):
        return f"would say {self.text}"
    def run(self, context):
        return Outcome(f"{self.text} {context.notification.tensors}", 3, "17", f"said {self.text}")

class Silent(Says, frozen=True, kw_only=True):
    wants_snapshot = False

class Raises(Action, frozen=True, kw_only=True):
    kind: str = "ValueError"
    text: str = "no"
    def run(self, context):
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
    global_step=7,
    worker="rank0-1",
    tensors=(TensorSnapshot("loss"),),
)


@pytest.fixture
def make_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "mine.py").write_text(ACTIONS)
    run = RunWriter(tmp_path / "run").write_all([Capture(7, {"loss": {"value": 0.25}})]).path
    monkeypatch.setenv("SECRET", SECRET)

    def made(name: str, **parameters: Any) -> ActionWorker:
        return ActionWorker(
            {"run": run, "action": f"mine.py:{name}", "parameters": parameters, "folder": str(tmp_path)}
        )

    return made


def deliver(worker: ActionWorker, notification: Notification = FINDING) -> dict[str, Any]:
    worker.prepare({"notice": notification.to_dict(), "workers": [], "now_ns": 5})
    return worker.deliver()


def test_the_retry_policy_is_reported_first(make_worker: Any) -> None:
    said = make_worker("Says", cooldown="60", episodes="once", retries=2, backoff=0.5, timeout=9.0).setup_result
    assert said["policy"] == {
        "dry_run": False,
        "cooldown": 60.0,
        "is_once": True,
        "retries": 2,
        "backoff": 0.5,
        "timeout": 9.0,
    }
    assert said["is_volatile"] is False


def test_the_outcome_of_the_action_is_reported(make_worker: Any) -> None:
    answer = deliver(make_worker("Silent"))
    assert (answer["step"], answer["request"], answer["announcement"]) == (3, "17", "said done")
    assert "statistics={}" in answer["outcome"]


def test_a_finding_contains_snapshots_of_its_tensors(make_worker: Any) -> None:
    assert "statistics={'value': 0.25}" in deliver(make_worker("Says"))["outcome"]


def test_a_run_that_cannot_be_read_does_not_prevent_the_delivery(make_worker: Any, tmp_path: Path) -> None:
    worker = make_worker("Says")
    (tmp_path / "run" / "manifest.json").write_text("{")
    assert deliver(worker)["outcome"].startswith("done (TensorSnapshot(name='loss'")


def test_secrets_reach_the_action_and_are_masked_in_its_outcomes(make_worker: Any) -> None:
    answer = deliver(make_worker("Says", text="$SECRET"))
    assert answer["outcome"].startswith("$SECRET ")
    assert answer["announcement"] == "said $SECRET"
    assert SECRET not in repr(answer)
    for kind in ("ValueError", "refused", "later", "OSError", "SystemExit"):
        assert SECRET not in repr(deliver(make_worker("Raises", kind=kind, text="$SECRET")))


def test_a_dry_run_only_describes_with_the_names_of_variables(make_worker: Any) -> None:
    assert deliver(make_worker("Says", text="$SECRET", dry_run=True))["outcome"] == "dry run: would say $SECRET"


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("ValueError", {"error": "ValueError (mine.py:22)"}),
        ("OSError", {"error": "OSError (mine.py:22)"}),
        ("SystemExit", {"error": "SystemExit (mine.py:22)"}),
        ("refused", {"error": "two lines", "is_final": True}),
        ("later", {"error": "two lines", "after_seconds": 7.0}),
    ],
)
def test_an_exception_of_an_action_is_reported_in_one_line(make_worker: Any, kind: str, answer: dict[str, Any]) -> None:
    worker = make_worker("Raises", kind=kind, text="two\nlines")
    assert deliver(worker) == answer
    assert worker.close() == {"error": "ValueError (mine.py:24)"}


def test_the_outcome_has_a_maximal_length(make_worker: Any) -> None:
    assert len(deliver(make_worker("Says", text="x" * 5000))["outcome"]) <= 300


@pytest.mark.parametrize(
    ("name", "parameters", "why"),
    [
        ("Says", {"text": "$UNSET_HERE"}, "$UNSET_HERE is not set"),
        ("Says", {"txet": "x"}, "no parameter of says named 'txet'"),
        ("Syas", {}, "no action named 'Syas'"),
    ],
)
def test_an_action_that_cannot_be_constructed_is_reported_with_the_reason(
    make_worker: Any, name: str, parameters: dict[str, Any], why: str
) -> None:
    said = make_worker(name, **parameters).setup_result
    assert why in said["error"]
    assert said["is_final"]
