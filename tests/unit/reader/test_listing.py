"""The list of runs: what is remembered of those that are over never differs from what they say."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from leadline.reader import locate
from leadline.reader.locate import list_runs
from leadline.store import layout
from leadline.testing.runs import SECOND_NS, START_NS, Capture, RunWriter


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(locate, "_SETTLED_NS", 0)
    return tmp_path / "cache"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in range(4):
        writer = RunWriter(tmp_path / "runs" / f"run-{number}", started_ns=START_NS + number * SECOND_NS)
        writer.write(Capture(number))
        writer.end() if number else writer.flush()
    return tmp_path / "runs"


def reads(monkeypatch: pytest.MonkeyPatch, root: Path) -> list[str]:
    """The names of the runs that listing reads."""
    found: list[str] = []
    original = locate.summarize

    def summarize(path: str) -> locate.RunSummary:
        found.append(os.path.basename(path))
        return original(path)

    with monkeypatch.context() as patched:
        patched.setattr(locate, "summarize", summarize)
        list_runs(root)
    return sorted(found)


def told(root: Path) -> list[dict[str, object]]:
    return [
        {**{k: v for k, v in each.__dict__.items() if k != "manifest"}, "steps": each.steps} for each in list_runs(root)
    ]


def test_runs_that_are_over_are_read_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = told(root)
    assert [each["name"] for each in first] == ["run-3", "run-2", "run-1", "run-0"]
    assert reads(monkeypatch, root) == ["run-0"]
    assert told(root) == first
    assert list_runs(root)[0].manifest.started_ns == START_NS + 3 * SECOND_NS


def test_a_run_that_changes_is_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list_runs(root)
    status = root / "run-2" / layout.STATUS
    status.write_text(json.dumps({**json.loads(status.read_text()), "status": "Stopped", "stopped_by": "a rule"}))
    assert reads(monkeypatch, root) == ["run-0", "run-2"]
    assert {each.name: each.status for each in list_runs(root)}["run-2"] == "Stopped"
    (root / "run-1" / layout.RULE_SUMMARY).write_text('{"rules": []}')
    assert {each.name: each.rules for each in list_runs(root)}["run-1"] == {"rules": []}


def test_a_run_that_is_removed_half_written_or_made_anew_is_told_as_it_is(root: Path) -> None:
    list_runs(root)
    shutil.rmtree(root / "run-3")
    (root / "run-2" / layout.MANIFEST).write_text('{"name": "run-2", "sta')
    shutil.rmtree(root / "run-1")
    RunWriter(root / "run-1", started_ns=START_NS + 9 * SECOND_NS)
    assert [(each.name, each.status) for each in list_runs(root)] == [("run-1", "InProgress"), ("run-0", "InProgress")]


def test_a_memory_that_is_damaged_or_cannot_be_written_is_done_without(root: Path, cache: Path) -> None:
    expected = told(root)
    (memory,) = (cache / "leadline" / "lists").iterdir()
    for text in ("", "{", '{"format": 1', '{"format": 99, "runs": 3}', "[]"):
        memory.write_text(text)
        assert told(root) == expected
    shutil.rmtree(cache)
    cache.write_text("no folder")
    assert told(root) == expected
