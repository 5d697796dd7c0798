"""The documents that the agent writes, also on a full disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from leadline.agent import run_documents as subject
from leadline.agent.run_documents import RunDocuments
from leadline.records import describe
from leadline.records.documents import NodeDocument
from leadline.store import layout
from leadline.store.documents import make_folder, read_document, write_document
from leadline.store.run_state import read_rule, read_rule_summary


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_document(str(tmp_path / layout.MANIFEST), {"name": "x"})
    return tmp_path


def status(run: Path) -> dict[str, Any]:
    document = read_document(str(run / layout.STATUS))
    assert isinstance(document, dict)
    return document


def test_a_transition_is_recorded_once(run: Path) -> None:
    log = RunDocuments(str(run), "n", clock=lambda: 5)
    log.set_status(status="InProgress", job_pid=9)
    log.set_status(status="InProgress", exit_status=1)
    assert status(run)["transitions"] == [
        {"status": "Starting", "time_ns": 5},
        {"status": "InProgress", "time_ns": 5},
    ]
    assert (status(run)["job_pid"], status(run)["exit_status"]) == (9, 1)
    log.close()


def test_existing_entries_are_kept(run: Path) -> None:
    write_document(
        str(run / layout.STATUS), {"status": "Starting", "transitions": [{"status": "Starting", "time_ns": 1}]}
    )
    log = RunDocuments(str(run), "n", clock=lambda: 5)
    log.set_status(status="InProgress")
    assert [each["time_ns"] for each in status(run)["transitions"]] == [1, 5]
    log.close()


def test_a_full_disk_delays_documents_and_the_reserve_makes_room(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = RunDocuments(str(run), "n")
    assert (run / layout.RESERVE).stat().st_size == 256 << 10
    real = subject.write_document

    def only_with_the_reserve(path: str, value: Any) -> None:
        if (run / layout.RESERVE).exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path, value)

    monkeypatch.setattr(subject, "write_document", only_with_the_reserve)
    log.set_status(status="Failed")
    log.retry()
    assert log.has_unwritten
    assert read_document(str(run / layout.STATUS)) is None
    log.give_up_reserve()
    assert status(run)["status"] == "Failed"
    assert not log.has_unwritten
    log.close()


def test_the_manifest_is_completed(run: Path) -> None:
    log = RunDocuments(str(run), "n")
    log.fold_manifest(workers=[1], lost=[])
    assert read_document(str(run / layout.MANIFEST)) == {"name": "x", "workers": [1], "lost": []}
    log.close()
    assert not (run / layout.RESERVE).exists()


def test_the_node_is_written_when_it_changed(run: Path) -> None:
    log = RunDocuments(str(run), "n")
    path = run / layout.node_document("n")
    log.set_node(NodeDocument("n"))
    before = path.stat().st_mtime_ns
    log.set_node(NodeDocument("n"))
    assert path.stat().st_mtime_ns == before
    log.set_node(NodeDocument("n", gone=("a",)))
    assert NodeDocument.from_dict(read_document(str(path))) == NodeDocument("n", gone=("a",))
    log.close()


def test_rules_that_no_judge_evaluates_any_more_keep_what_is_clear_so_far(run: Path) -> None:
    verdicts = {"calm": "clear", "single": "not_applicable", "open": None}
    rules = [{"name": name, "status": "InProgress", "verdict": verdict} for name, verdict in verdicts.items()]
    rules.append({"name": "fired", "status": "IssuesFound", "verdict": "fired", "findings": 1})
    for rule in rules:
        make_folder(str(run / "rules" / str(rule["name"])))
        write_document(str(run / layout.rule_status(str(rule["name"]))), {**rule, "judged_step": 181_757})
    write_document(str(run / layout.RULE_SUMMARY), {"judged_step": 181_757, "rules": rules})
    log = RunDocuments(str(run), "n")
    log.stop_rules()
    log.close()
    summary = read_rule_summary(str(run))
    assert summary is not None
    told = {rule.name: (rule.status, rule.verdict, rule.why) for rule in summary.rules}
    assert told == {
        "calm": ("Stopped", "clear", f"clear up to step 181,757; {describe.ENDED_EARLY}"),
        "single": ("Stopped", "not_applicable", ""),
        "open": ("Stopped", "undecided", describe.ENDED_EARLY),
        "fired": ("IssuesFound", "fired", ""),
    }
    document = read_rule(str(run), "calm")
    assert document is not None
    assert (document.verdict, document.judged_step) == ("clear", 181_757)
