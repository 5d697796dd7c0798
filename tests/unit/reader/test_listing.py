"""The run list: its fields equal those of the completely parsed documents; damaged runs are listed as such."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leadline.errors import DamagedRunError, RunNotFoundError
from leadline.reader.find_runs import find_run, list_runs
from leadline.reader.run import open_run
from leadline.records.manifest import ActionSpec, RuleSpec
from leadline.records.plan import CaptureItem, CapturePlan
from leadline.records.profile_window import ProfileWindow
from leadline.records.totals import step_share
from leadline.store import layout
from leadline.store.documents import InPlaceDocument, read_document
from leadline.testing.runs import SECOND_NS, START_NS, Capture, RunWriter

NOBODY: Final = 2**22 + 1
"""A pid without a process."""
HOST: Final = os.uname().nodename
RULES: Final = (RuleSpec("loss_spike", "loss_spike"), RuleSpec("mine", "mine.py:Mine", {"threshold": 2}))


def write(path: Path, *, is_over: bool = True, status: str = "Completed", **changes: Any) -> RunWriter:
    """Write a run of five steps, ended or running."""
    writer = RunWriter(path, rules=RULES, actions=[ActionSpec("*", "stop_training")])
    writer.write_all([Capture(step, {"loss": {"value": 1.0}}) for step in range(5)])
    result = {"losses": {"loss": 0.25}, "own_ns": 3, "loop_ns": 100}
    writer.write_worker("rank0-1", state="ended" if is_over else "running", **result)
    if is_over:
        changes = {"exit_status": 0, "ended_ns": START_NS + 9 * SECOND_NS, **changes}
    writer.set_status(status, **changes)
    complete(path)
    judge(path, loss_spike=2, mine=0)
    return writer


def complete(path: Path) -> None:
    """Add a plan and the other fields written by ``leadline run`` to the manifest."""
    plan = CapturePlan((CaptureItem("losses", statistics=("value",)),), disk_bytes=sum(path.name.encode()))
    change(
        path / layout.MANIFEST,
        plan=plan.to_dict(),
        profile=[ProfileWindow("detailed", step=3).to_dict()],
        settings={"preset": "standard"},
        versions={"python": "3.11"},
        workers=[{"worker": "rank0-1"}],
        nodes=[{"node": "node"}],
        lost=[],
    )


def judge(path: Path, **findings: int) -> None:
    rules = [
        {
            "name": name,
            "rule": name,
            "status": "IssuesFound" if count else "NoIssuesFound",
            "findings": count,
            "verdict": "fired" if count else "clear",
            "why": "",
            "step": None,
            "message": None,
        }
        for name, count in findings.items()
    ]
    (path / layout.RULE_SUMMARY).write_text(json.dumps({"complete": True, "rules": rules}))


def change(document: Path, *without: str, **changes: Any) -> None:
    """Change fields of a document."""
    result = {**json.loads(document.read_text()), **changes}
    document.write_text(json.dumps({key: value for key, value in result.items() if key not in without}))


def gone(**changes: Any) -> dict[str, Any]:
    """Write the status of an agent that was killed on this host."""
    return {"status": "InProgress", "is_over": False, "node": HOST, "agent_pid": NOBODY, "job_pid": NOBODY, **changes}


def killed_with(path: Path, **worker: Any) -> None:
    write(path, **gone()).write_worker("rank0-1", node=HOST, **worker)


def silent(path: Path) -> None:
    write(path, status="InProgress", is_over=False, node="another")
    for folder, _, names in os.walk(path):
        for name in names:
            os.utime(os.path.join(folder, name), (1.0, 1.0))


def killed_before_it_began(path: Path, *, job: int) -> None:
    write(path, **gone(job_pid=job))
    shutil.rmtree(path / layout.WORKERS)


def of_many_workers(path: Path) -> None:
    writer = write(path)
    writer.write_worker("rank1-2", steps={"train": 7, "eval": 2}, losses={"a": "NaN", "b": 1.0}, own_ns=1, loop_ns=50)
    writer.write_worker("rank2-3", steps={"train": 6, "predict": 1}, losses=None, notes=["long " * 40_000])
    writer.write_worker("rank0-0", losses={}, own_ns=None)
    (path / layout.WORKERS / "rank9-9.json.17.part").write_text("{")


def rewritten_in_place(path: Path) -> None:
    write(path)
    document = InPlaceDocument(str(path / layout.worker_document("rank0-1")), {"steps": {"train": 800}})
    document.write({"steps": {"train": 9}, "losses": {"loss": float("inf")}, "own_ns": 1, "loop_ns": 2})
    document.close()


def put(*place: str, text: str | bytes) -> Callable[[Path], None]:
    """Write a run with other contents in one of its documents."""

    def made(path: Path) -> None:
        write(path)
        document = path.joinpath(*place)
        document.write_bytes(text if isinstance(text, bytes) else text.encode())

    return made


def left_out(*place: str) -> Callable[[Path], None]:
    def made(path: Path) -> None:
        write(path)
        removed = path.joinpath(*place)
        shutil.rmtree(removed) if removed.is_dir() else removed.unlink()

    return made


def result(*without: str, **changes: Any) -> Callable[[Path], None]:
    """Write a run with changed fields in its manifest."""

    def made(path: Path) -> None:
        write(path)
        change(path / layout.MANIFEST, *without, **changes)

    return made


def encoded(encoding: str) -> Callable[[Path], None]:
    """Write a run whose manifest has another encoding, with non-ASCII text in a field that lists skip."""

    def made(path: Path) -> None:
        write(path)
        document = {**json.loads((path / layout.MANIFEST).read_text()), "folder": "/tmp/münchen"}
        (path / layout.MANIFEST).write_bytes(json.dumps(document, ensure_ascii=False).encode(encoding))

    return made


def worker(text: str) -> Callable[[Path], None]:
    return put(layout.WORKERS, "rank0-1.json", text=text)


ITEM: Final = CapturePlan((CaptureItem("losses"),)).to_dict()["items"][0]
WHOLE: Final[Mapping[str, Callable[[Path], Any]]] = {
    "completed": write,
    "failed": lambda path: write(path, status="Failed", exit_status=1),
    "failed before it trained": lambda path: write(path, status="Failed", exit_status=1, error="ValueError: no data"),
    "stopped": lambda path: write(path, status="Stopped", stopped_by="loss_spike"),
    "interrupted": lambda path: write(path, status="Interrupted"),
    "in progress": lambda path: write(path, status="InProgress", is_over=False),
    "stopping": lambda path: write(path, status="Stopping", is_over=False),
    "starting": lambda path: write(path, status="Starting", is_over=False),
    "continues here": lambda path: write(path, **gone(agent_pid=os.getpid(), job_pid=os.getpid())),
    "agent gone, worker continues": lambda path: killed_with(path, pid=os.getpid(), time_ns=time.time_ns()),
    "agent gone, worker killed": lambda path: killed_with(path, pid=NOBODY),
    "agent gone, worker ended": lambda path: killed_with(path, pid=NOBODY, state="ended"),
    "agent gone, job killed": lambda path: killed_before_it_began(path, job=NOBODY),
    "agent gone, job continues": lambda path: killed_before_it_began(path, job=os.getpid()),
    "continues elsewhere": lambda path: write(path, status="InProgress", is_over=False, node="another"),
    "silent elsewhere": silent,
    "of many workers": of_many_workers,
    "rewritten in place": rewritten_in_place,
    "found nothing": lambda path: (write(path), judge(path, loss_spike=0)),
    "no rules": lambda path: (write(path), judge(path)),
    "just made": lambda path: RunWriter(path),
    "no status": left_out(layout.STATUS),
    "no workers": left_out(layout.WORKERS),
    "no verdicts": left_out(layout.RULE_SUMMARY),
    "torn status": put(layout.STATUS, text='{"status":"Comp'),
    "another's status": put(layout.STATUS, text="[]"),
    "a status of its own": put(layout.STATUS, text='{"status":5}'),
    "torn worker": worker('{"steps":{"tr'),
    "another's worker": worker("[3]"),
    "worker with NaN": worker('{"steps":{"train":4},"losses":{"loss":"Infinity"},"own_ns":1,"loop_ns":4}'),
    "worker without steps": worker('{"worker":"rank0-1"}'),
    "torn verdicts": put(layout.RULE_SUMMARY, text='{"rules":['),
    "another's verdicts": put(layout.RULE_SUMMARY, text='[{"name":"x"}]'),
    "newer manifest": result(novelty={"x": 1}, profile=[{"kind": "cprofile", "novelty": 1}]),
    "newer plan": result(plan={"items": [], "novelty": 1}),
    "newer rule": result(rules=[{"alias": "a", "rule": "a", "novelty": 1}]),
    "no plan": result("plan"),
    "older manifest": result("profile", "workers", "nodes", "settings", "preset", "format"),
    "action of format 1": result(actions=[{"rule": "*", "action": "stop_training", "status": "Error"}]),
    "manifest in UTF-8": encoded("utf-8"),
}
DAMAGED: Final[Mapping[str, Callable[[Path], Any]]] = {
    "torn manifest": put(layout.MANIFEST, text='{"name":"x","started_ns":17'),
    "empty manifest": put(layout.MANIFEST, text=""),
    "another's manifest": put(layout.MANIFEST, text='{"name":"app","started_ns":17,"version":"1.0"}'),
    "manifest in brackets": put(layout.MANIFEST, text="[]"),
    "no command": result("command"),
    "no version": result("leadline"),
    "no time": result(started_ns="now"),
    "a time beyond 64 bits": result(started_ns=10**400),
    "no name": result(name=3),
}
"""Manifests that neither a list nor ``open_run`` accepts, or without a name or a time to sort by."""
UNSEEN: Final[Mapping[str, Callable[[Path], Any]]] = {
    "no place": result("uri"),
    "plan in brackets": result(plan=[]),
    "interval that is no number": result(plan={"items": [{"collection": "losses", "schedule": {"every": "often"}}]}),
    "rule without its class": result(rules=[{"alias": "a"}]),
    "no actions": result(actions=None),
}
"""Manifests that ``open_run`` refuses for fields that a list does not read."""
SHOWN: Final = (
    "name",
    "path",
    "status",
    "started_ns",
    "ended_ns",
    "preset",
    "command",
    "steps",
    "loss",
    "cost_ratio",
    "rules",
)


def at_length(path: str) -> dict[str, Any] | None:
    """Return the listed fields from the completely parsed documents; None if the run cannot be opened."""
    try:
        run = open_run(path)
    except (DamagedRunError, RunNotFoundError):
        return None
    workers = run.worker_documents().values()
    verdicts = read_document(os.path.join(path, layout.RULE_SUMMARY))
    rules = verdicts.get("rules", []) if isinstance(verdicts, dict) else []
    modes = {mode for worker in workers for mode in worker.steps}
    return {
        "name": run.name,
        "path": path,
        "status": run.status,
        "started_ns": run.manifest.started_ns,
        "ended_ns": run.status_document.ended_ns,
        "preset": run.manifest.preset,
        "command": run.manifest.command,
        "steps": {mode: max(worker.steps.get(mode, 0) for worker in workers) for mode in modes},
        "loss": next((loss for worker in workers for loss in worker.losses.values()), None),
        "cost_ratio": step_share(workers),
        "rules": [tuple(rule[key] for key in ("name", "status", "verdict", "findings")) for rule in rules],
    }


def in_the_list(root: Path) -> dict[str, dict[str, Any]]:
    """Return the listed runs, by folder name."""
    found = {}
    for each in list_runs(root):
        rules = [(rule.name, rule.status, rule.verdict, rule.findings) for rule in each.rules]
        found[os.path.basename(each.path)] = {**{key: getattr(each, key) for key in SHOWN}, "rules": rules}
    return found


@pytest.mark.parametrize("name", WHOLE)
def test_a_listed_run_equals_its_complete_documents(tmp_path: Path, name: str) -> None:
    WHOLE[name](tmp_path / name)
    expected = at_length(str(tmp_path / name))
    assert expected is not None
    assert in_the_list(tmp_path) == {name: expected}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_run_whose_manifest_is_refused_is_listed_as_damaged(tmp_path: Path, name: str) -> None:
    DAMAGED[name](tmp_path / name)
    (found,) = list_runs(tmp_path)
    changed_ns = (tmp_path / name / layout.MANIFEST).stat().st_mtime_ns
    assert (found.name, found.status, found.started_ns, found.rules) == (name, "Damaged", changed_ns, ())
    with pytest.raises(RunNotFoundError):
        find_run(root=tmp_path)  # it is not the latest run


@pytest.mark.parametrize("name", UNSEEN)
def test_only_the_few_fields_of_a_list_are_read(tmp_path: Path, name: str) -> None:
    UNSEEN[name](tmp_path / name)
    assert at_length(str(tmp_path / name)) is None
    assert [found.status for found in list_runs(tmp_path)] == ["Completed"]


def test_the_runs_cover_every_status(tmp_path: Path) -> None:
    for name, make in WHOLE.items():
        make(tmp_path / name)
    found = {name: each["status"] for name, each in in_the_list(tmp_path).items()}
    assert set(found.values()) - {"5"} == {
        "Starting",
        "InProgress",
        "Completed",
        "Failed",
        "Stopping",
        "Stopped",
        "Interrupted",
    }
    killed = {name: status for name, status in found.items() if name.startswith("agent gone")}
    assert killed == {
        "agent gone, worker continues": "InProgress",
        "agent gone, worker killed": "Interrupted",
        "agent gone, worker ended": "Completed",
        "agent gone, job killed": "Interrupted",
        "agent gone, job continues": "InProgress",
    }
    assert (found["silent elsewhere"], found["continues elsewhere"]) == ("Interrupted", "InProgress")


_WRONG: Final = (
    b"NaN",
    b"null",
    b"1.0",
    b"1e400",
    b'"\\ud800"',
    b"\xff",
    b"\x00",
    b"{}",
    b"[]",
    b'"x"',
    b"01",
    b"1.",
    b"\\q",
    b"\n",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b",",
    b"9" * 25,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    write(path)
    return path


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_manifest_never_hides_a_run(whole: Path, tmp_path: Path, data: st.DataObject) -> None:
    copy = tmp_path / "run"
    copy.mkdir(exist_ok=True)
    text = bytearray((whole / layout.MANIFEST).read_bytes())
    at = data.draw(st.integers(0, len(text) - 1))
    match data.draw(st.sampled_from(["flip", "cut", "put", "drop"])):
        case "flip":
            text[at] ^= 1 << data.draw(st.integers(0, 7))
        case "cut":
            del text[at:]
        case "put":
            text[at:at] = data.draw(st.sampled_from(_WRONG))
        case _:
            del text[at : at + data.draw(st.integers(1, 3))]
    (copy / layout.MANIFEST).write_bytes(text)
    (found,) = list_runs(tmp_path)
    if found.status != "Damaged":
        expected = json.loads(text.decode("utf-8", "replace"))
        assert (found.name, found.started_ns) == (expected["name"], expected["started_ns"])
        assert list(found.command) == expected["command"]


def test_runs_are_listed_latest_first_then_by_name(tmp_path: Path) -> None:
    for name, second in {"b": 2, "a": 2, "c": 1, "d": 3}.items():
        RunWriter(tmp_path / name, started_ns=START_NS + second * SECOND_NS).end()
    assert [each.name for each in list_runs(tmp_path)] == ["d", "b", "a", "c"]
    assert find_run(root=tmp_path) == str(tmp_path / "d")
    assert find_run("-3", root=tmp_path) == str(tmp_path / "c")


def test_links_are_followed_and_other_folders_are_skipped(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    write(root / "here")
    write(root / "here" / "nested")
    write(tmp_path / "elsewhere")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    (root / "nowhere").symlink_to(tmp_path / "removed")
    (root / "round").symlink_to(root / "round")
    (root / "a file").write_text("{}")
    (root / "a folder").mkdir()
    (root / "a manifest of folders" / layout.MANIFEST).mkdir(parents=True)
    (root / "a pipe").mkdir()
    os.mkfifo(root / "a pipe" / layout.MANIFEST)
    (tmp_path / "other root").symlink_to(root)
    assert set(in_the_list(root)) == set(in_the_list(tmp_path / "other root")) == {"here", "link"}
    assert set(in_the_list(root / "here")) == {"nested"}
    assert list_runs(tmp_path / "removed") == list_runs(root / "a file") == []


def files(folder: Path) -> Iterator[tuple[str, int, int]]:
    for above, _, names in os.walk(folder):
        for name in names:
            seen = os.stat(os.path.join(above, name))
            yield os.path.join(above, name), seen.st_mtime_ns, seen.st_size


def test_in_place_changes_are_noticed_without_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    run = tmp_path / "runs" / "run"
    write(run)
    document = run / layout.worker_document("rank0-1")
    seen, before = os.stat(document), list(files(tmp_path))
    assert in_the_list(tmp_path / "runs")["run"]["loss"] == 0.25
    assert list(files(tmp_path)) == before
    with open(document, "r+b") as file:
        text = file.read()
        file.seek(0)
        file.write(text.replace(b"0.25", b"0.75"))
    os.utime(document, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert list(files(tmp_path)) == before, "no stat tells of it"
    assert in_the_list(tmp_path / "runs")["run"]["loss"] == 0.75
