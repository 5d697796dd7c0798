"""The HTML of a run in a notebook cell, from its documents alone."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from leadline.store import layout
from leadline.store.documents import make_folder, write_document
from leadline.store.run_html import verdict_html
from leadline.training.session.watch import WatchedRun

HOSTILE = "<script>alert('x')</script>&\"<b>"


class Balanced(HTMLParser):
    """Collects text and tags, and rejects unclosed tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "a-run"
    for folder in layout.FOLDERS:
        make_folder(str(path / folder))
    write_document(str(path / layout.MANIFEST), {"name": "a-run", "rules": [{"alias": "r"}]})
    return path


def shown(run: Path) -> Balanced:
    return Balanced(WatchedRun(run)._repr_html_())


def worker(run: Path, **document: Any) -> None:
    write_document(str(run / layout.worker_document("rank0-1")), {"worker": "rank0-1", **document})


def rules(run: Path, *rules: dict[str, Any]) -> None:
    write_document(str(run / layout.RULE_SUMMARY), {"rules": rules})


def test_it_behaves_like_the_path(run: Path) -> None:
    watching = WatchedRun(run)
    assert (str(watching), Path(watching), f"{watching}") == (str(run), run, str(run))
    assert repr(watching) == f"WatchedRun({str(run)!r})"
    assert type(str(watching)) is str


def test_a_run_that_has_just_started(run: Path) -> None:
    text = shown(run).text
    assert "a-run Starting.no step yet" in text
    assert "1 rule, not evaluated yet" in text
    assert "leadline stop a-run" in text


def test_it_shows_status_steps_losses_and_rules(run: Path) -> None:
    write_document(str(run / layout.STATUS), {"status": "Stopped", "stopped_by": "rule:exploding_tensor"})
    worker(run, steps={"train": 1314, "eval": 20}, losses={"loss": 0.1234567, "bad": "NaN"})
    rules(
        run,
        {"name": "clear_one", "status": "NoIssuesFound", "verdict": "clear", "why": ""},
        {"name": "clear_two", "status": "NoIssuesFound", "verdict": "clear", "why": ""},
        {"name": "waiting", "status": "InProgress", "verdict": "undecided", "why": "no gradients yet"},
        {"name": "straggler", "status": "NoIssuesFound", "verdict": "not_applicable", "why": "single process"},
        {"name": "broken", "status": "Error", "verdict": None, "why": "ValueError: x"},
        {
            "name": "exploding_tensor",
            "status": "IssuesFound",
            "findings": 1,
            "step": 1312,
            "message": "loss is NaN",
            "suggestion": "clip gradients",
        },
    )
    text = shown(run).text
    assert "a-run Stopped at step 1,313 by exploding_tensor: loss is NaN (step 1,312). Try: clip gradients." in text
    assert "1,314 steps, 20 eval steps · loss 0.123 · bad NaN" in text
    assert "exploding_tensorstep 1,312loss is NaNtry: clip gradients" in text
    assert "waitingundecidedno gradients yet" in text
    assert "brokenerrorValueError: x" in text
    assert "straggler" not in text
    order = [text.index(name) for name in ("exploding_tensorstep", "broken", "waiting", "clear_one")]
    assert order == sorted(order)
    assert "2 rulesclearclear_one, clear_two" in text
    assert "leadline stop" not in text


def test_data_of_a_run_is_escaped(run: Path) -> None:
    write_document(str(run / layout.MANIFEST), {"name": HOSTILE, "rules": []})
    write_document(str(run / layout.STATUS), {"status": HOSTILE, "stopped_by": HOSTILE})
    worker(
        run,
        steps={HOSTILE: 3},
        losses={HOSTILE: HOSTILE},
        off={"step": HOSTILE, "error": HOSTILE},
        lost={"since_step": HOSTILE, "reason": HOSTILE},
    )
    finding = {"findings": 1, "step": 1, "message": HOSTILE, "suggestion": HOSTILE}
    rules(
        run,
        {"name": HOSTILE, "status": "IssuesFound", **finding},
        {"name": "x", "status": "NoIssuesFound", "verdict": HOSTILE, "why": HOSTILE},
    )
    page = shown(run)
    assert "script" not in page.tags
    assert page.text.count(HOSTILE) >= 11


def test_a_deleted_run_is_reported(tmp_path: Path) -> None:
    assert "its directory was removed" in Balanced(verdict_html(str(tmp_path / "gone"))).text
