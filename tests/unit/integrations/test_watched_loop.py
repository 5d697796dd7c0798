"""A callback watches once, and gives the ranks of a node one run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from leadline.integrations import watched_loop
from leadline.integrations.watched_loop import WatchedLoop, begin_session, note_checkpoint
from leadline.training.session import api


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options of the runs that were begun; the agent is started in tests/process."""
    begun: list[dict[str, Any]] = []
    monkeypatch.setattr(watched_loop, "watch", lambda **options: begun.append(options))
    monkeypatch.setattr(api, "current", lambda: None)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    for name in ("LEADLINE_RUN", "LEADLINE_ROOT", "LEADLINE_DISABLED", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    return begun


def test_a_run_is_begun_with_the_options(begun: list[dict[str, Any]]) -> None:
    assert begin_session({"preset": "light"}) is None
    assert begun == [{"preset": "light"}]
    assert "LEADLINE_RUN" not in os.environ


def test_nothing_is_begun_where_leadline_is_disabled(
    begun: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_DISABLED", "1")
    loop = WatchedLoop("some_trainer", {})
    loop.begin(100)
    note_checkpoint("/out")
    loop.end()
    assert (begun, loop.should_stop) == ([], False)


def test_ranks_of_a_node_have_one_run(
    begun: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    begin_session({"out": str(tmp_path), "name": "mine"})
    assert os.environ.pop("LEADLINE_RUN") == str(tmp_path / "mine")
    begin_session({"out": str(tmp_path)})
    first = os.environ.pop("LEADLINE_RUN")
    begin_session({"out": str(tmp_path)})
    assert os.environ.pop("LEADLINE_RUN") == first  # the same parent, the same run
    assert first.endswith(f"-{os.getppid()}")
    monkeypatch.setenv("MASTER_PORT", "29501")
    begin_session({"out": str(tmp_path)})
    assert os.environ.pop("LEADLINE_RUN") == f"{first}-29501"  # another group of the same parent
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    begin_session({"out": str(tmp_path)})
    assert os.environ.pop("LEADLINE_RUN") == first  # a restarted group


def test_ranks_of_several_nodes_must_be_told_where(
    begun: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    begin_session({})
    assert begun == []
    assert "set LEADLINE_RUN to a folder that all see" in capsys.readouterr().err
    monkeypatch.delenv("LOCAL_WORLD_SIZE")  # a launcher that does not say it
    begin_session({})
    assert begun == []
    monkeypatch.setenv("LEADLINE_RUN", "/shared/run")
    begin_session({})
    assert begun == [{}]
