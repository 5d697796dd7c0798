"""The judge: what it writes, which rule an error is attributed to, and that it continues after any error."""

from __future__ import annotations

import errno
import json
import os
import re
import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from timelines import training

from leadline.errors import DamagedRunError, LeadlineError, RunNotFoundError, StoreFullError
from leadline.judge import rule_results
from leadline.judge.judge import judge_run
from leadline.judge.rule_entry import Results, RuleResult
from leadline.judge.rule_pool import WorkerLimits
from leadline.judge.run_trust import RunTrust
from leadline.records.finding import Finding
from leadline.records.manifest import ActionSpec, RuleSpec
from leadline.store import control, layout
from leadline.store.documents import read_document, read_lines
from leadline.testing.runs import Capture, Part, RunWriter

LOSSES: list[Part] = [Capture(step, {"loss": {"value": float("nan") if step == 7 else 1.0}}) for step in range(12)]
MINE = """
import os, time
from leadline.rules import Clear, Fired, Needs, Rule

class Mine(Rule):
    limit: float = 5

    def needs(self):
        return Needs.of("losses", "value")

    def evaluate(self, window):
        print("a rule may print")
        if window.step == self.limit:
            {body}
        return Clear()
"""
LARGE = WorkerLimits(hang_seconds=60.0, memory_bytes=256 << 20, start_seconds=60.0)
"""Only a rule that takes much memory meets them."""
THINKING = replace(LARGE, hang_seconds=5.0)
SOON = replace(LARGE, hang_seconds=8.0, start_seconds=8.0)
"""For rules that hang: at a step, and before the first."""
WHOLE = RunTrust(is_whole=True)


def mine(folder: Path, body: str, alias: str = "mine") -> RuleSpec:
    (folder / f"{alias}.py").write_text(MINE.format(body=body))
    return RuleSpec(alias, f"{alias}.py:Mine", folder=str(folder))


def run_of(tmp_path: Path, *rules: RuleSpec, parts: list[Part] = LOSSES, **options: Any) -> RunWriter:
    return RunWriter(tmp_path / "run", rules=rules, **options).write_all(parts)


def result(results: Results, name: str) -> RuleResult:
    (found,) = [each for each in results.rules if each.name == name]
    return found


def test_documents_contain_the_results(tmp_path: Path) -> None:
    rules = [RuleSpec(name, name) for name in ("exploding_tensor", "vanishing_gradient", "loss_not_decreasing")]
    writer = run_of(tmp_path, *rules).end()
    results = judge_run(writer.path, write=True, trust=WHOLE)
    assert [(each.status, each.verdict) for each in results.rules] == [
        ("IssuesFound", "fired"),
        ("NoIssuesFound", "undecided"),
        ("NoIssuesFound", "undecided"),
    ]
    folder = Path(writer.path)
    status = read_document(str(folder / layout.rule_status("exploding_tensor")))
    assert (status["status"], status["verdict"], status["judged_steps"], status["findings"]) == (
        "IssuesFound",
        "fired",
        12,
        1,
    )
    assert status["parameters"] == {"collection_names": None, "tensor_regex": None, "only_nan": False}
    status = read_document(str(folder / layout.rule_status("vanishing_gradient")))
    assert status["why"] == "no gradients were captured"
    opened, closed = read_lines(str(folder / layout.rule_findings("exploding_tensor")))
    assert (opened["event"], opened["step"], opened["is_open"]) == ("opened", 7, True)
    assert (closed["event"], closed["last_step"], closed["is_open"], closed["count"]) == ("closed", 7, False, 1)
    summary = read_document(str(folder / layout.RULE_SUMMARY))
    assert summary["complete"]
    assert summary["judged_step"] == 11
    assert [each["message"] for each in summary["announcements"]] == ["loss is NaN"]
    assert summary["rules"][0]["step"] == 7


def test_judging_with_other_rules_writes_nothing(tmp_path: Path) -> None:
    writer = run_of(tmp_path).end()
    before = sorted(Path(writer.path).rglob("*"))
    results = judge_run(writer.path, [RuleSpec("again", "exploding_tensor")], trust=WHOLE)
    assert result(results, "again").findings[0].message == "loss is NaN"
    assert sorted(Path(writer.path).rglob("*")) == before


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("raise ValueError('two\\nlines')", "ValueError: two lines (mine.py:14)"),
        ("raise SystemExit(3)", "SystemExit: 3 (mine.py:14)"),
        ("return None", "TypeError: evaluate() must return Clear, Fired, Undecided or NotApplicable, not NoneType"),
        ("bytearray(1 << 30)", "MemoryError: it exceeded the memory limit for rules (mine.py:14)"),
        ("time.sleep(600)", "did not return within 5 s at step 5"),
        ("os._exit(7)", "its process exited with status 7"),
        ("os.kill(os.getpid(), 11)", "its process was killed by SIGSEGV"),
        ("os.kill(os.getpid(), 9)", "its process was killed by SIGKILL"),
    ],
)
def test_a_rule_that_fails_has_the_error_and_the_others_continue(tmp_path: Path, body: str, why: str) -> None:
    others = (mine(tmp_path, "return Fired('as asked')", "other"), RuleSpec("exploding_tensor", "exploding_tensor"))
    writer = run_of(tmp_path, mine(tmp_path, body), *others).end()
    results = judge_run(writer.path, write=True, limits=THINKING if "did not return" in why else LARGE, trust=WHOLE)
    failed = result(results, "mine")
    assert (failed.status, failed.verdict, failed.why) == ("Error", None, why)
    assert result(results, "other").findings[0].step == 5
    assert result(results, "exploding_tensor").findings[0].step == 7
    assert read_document(f"{writer.path}/{layout.rule_status('mine')}")["status"] == "Error"


def test_the_error_of_a_rule_is_stored_without_secrets(tmp_path: Path) -> None:
    body = 'raise ValueError("postgres://me:hunter2@host refused, token=x1y2z3w4")'
    specs = mine(tmp_path, body), mine(tmp_path, "pass", "other")
    (tmp_path / "other.py").write_text('raise ValueError("--password hunter2 is wrong")')
    results = judge_run(run_of(tmp_path, *specs).end().path, write=True, trust=WHOLE)
    assert result(results, "mine").why == "ValueError: postgres://me:****@host refused, token=**** (mine.py:14)"
    assert result(results, "other").why.endswith("other.py:1: ValueError: --password **** is wrong")
    written = "".join(path.read_text() for path in (tmp_path / "run" / "rules").rglob("*.json"))
    assert "hunter2" not in written


def test_a_rule_may_take_memory_up_to_the_limit(tmp_path: Path) -> None:
    spec = mine(tmp_path, f"return Fired(str(len(bytearray({LARGE.memory_bytes // 2}))))")
    found = result(judge_run(run_of(tmp_path, spec).end().path, limits=LARGE, trust=WHOLE), "mine")
    assert (found.status, found.findings[0].message) == ("IssuesFound", str(LARGE.memory_bytes // 2)), found.why


def test_a_rule_whose_worker_was_killed_is_evaluated_again(tmp_path: Path) -> None:
    flag = str(tmp_path / "killed")
    kill_once = f"os.path.exists({flag!r}) or (open({flag!r}, 'w').close(), os.kill(os.getpid(), 9))"
    spec = mine(tmp_path, f"{kill_once}; return Fired('asked again')")
    found = result(judge_run(run_of(tmp_path, spec).end().path, write=True, trust=WHOLE), "mine")
    assert Path(flag).exists()
    assert (found.status, [each.message for each in found.findings]) == ("IssuesFound", ["asked again"])


STRANGE = """
import os, time
from leadline.rules import Clear, Needs, Rule

kept = []
{at_import}

class Mine(Rule):
    def needs(self):
        {in_needs}
        return Needs.of("losses", "value")

    def evaluate(self, window):
        {in_evaluate}
        return Clear()
"""


@pytest.mark.parametrize(
    ("places", "why"),
    [
        ({"at_import": "while True: time.time()"}, "did not return within 8 s"),
        ({"at_import": "bytearray(1 << 33)"}, "cannot import the rule file: .*mine.py:6: MemoryError"),
        ({"in_needs": "time.sleep(60)"}, "did not return within 8 s"),
        ({"in_needs": "raise KeyError('x')"}, "KeyError: 'x'"),
        ({"in_evaluate": "bytearray(10 << 30)"}, "MemoryError: it exceeded the memory limit for rules"),
        ({"in_evaluate": "kept.append(bytearray(200 << 20))"}, "it exceeded the memory limit for rules"),
    ],
)
def test_custom_code_runs_only_in_its_own_worker(tmp_path: Path, places: dict[str, str], why: str) -> None:
    body = {"at_import": "", "in_needs": "pass", "in_evaluate": "pass", **places}
    (tmp_path / "mine.py").write_text(STRANGE.format(**body))
    spec = RuleSpec("mine", "mine.py:Mine", folder=str(tmp_path))
    limits = SOON if "did not return" in why else LARGE
    results = judge_run(
        run_of(tmp_path, spec, RuleSpec("e", "exploding_tensor")).end().path, limits=limits, trust=WHOLE
    )
    failed = result(results, "mine")
    assert failed.status == "Error"
    assert re.search(why, failed.why)
    assert result(results, "e").findings[0].step == 7


def test_findings_are_ranked_and_name_their_cause(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from leadline.rules import Clear, Fired, Needs, Rule\n"
        "class At(Rule):\n"
        "    step: int\n"
        "    def needs(self): return Needs.of('losses', 'value')\n"
        "    def evaluate(self, window): return Fired('seen') if window.step == self.step else Clear()\n"
        "class Origin(At):\n"
        "    explains = ('exploding_tensor',)\n"
    )
    rules = [
        RuleSpec("late", "mine.py:At", {"step": 9}, str(tmp_path)),
        RuleSpec("exploding_tensor", "exploding_tensor"),
        RuleSpec("loss_not_decreasing", "loss_not_decreasing"),
        RuleSpec("origin", "mine.py:Origin", {"step": 6}, str(tmp_path)),
    ]
    writer = run_of(tmp_path, *rules).end()
    judge_run(writer.path, write=True, trust=WHOLE)
    said = read_document(f"{writer.path}/{layout.RULE_SUMMARY}")["rules"]
    assert [(each["name"], each["explained_by"]) for each in said] == [
        ("exploding_tensor", "origin"),
        ("origin", None),
        ("late", None),
        ("loss_not_decreasing", None),
    ]
    assert said[0]["suggestion"] == "the advice of origin first; this usually follows from it"


def test_a_rule_that_no_longer_exists_is_an_error_of_that_rule(tmp_path: Path) -> None:
    writer = run_of(
        tmp_path, RuleSpec("lost", "lost.py:Lost", folder=str(tmp_path)), RuleSpec("e", "exploding_tensor")
    ).end()
    results = judge_run(writer.path, trust=WHOLE)
    assert "no such rule file" in result(results, "lost").why
    assert result(results, "e").verdict == "fired"


def test_a_finding_asks_the_training_to_stop_once(tmp_path: Path) -> None:
    action = ActionSpec("exploding_tensor", "stop_training", parameters={"grace": "5"})
    writer = run_of(tmp_path, RuleSpec("exploding_tensor", "exploding_tensor"), actions=[action])
    judge_run(writer.path, write=True, trust=WHOLE)
    (request,) = control.read_requests(writer.path)
    assert (request.kind, request.step, request.by) == ("stop", 12, "rule:exploding_tensor")
    assert (request.reason, request.grace_seconds) == ("loss is NaN", 5.0)
    (line,) = read_lines(f"{writer.path}/{layout.ACTIONS}")
    assert line["outcome"] == "stop requested at step 12"
    assert line["request"] == request.id
    announced = read_document(f"{writer.path}/{layout.RULE_SUMMARY}")["announcements"]
    assert [each["action"] for each in announced] == ["stopping at the next step"]
    judge_run(writer.path, write=True, trust=WHOLE)
    assert len(control.read_requests(writer.path)) == 1
    assert read_document(f"{writer.path}/{layout.RULE_SUMMARY}")["announcements"] == announced
    assert len(read_lines(f"{writer.path}/{layout.rule_findings('exploding_tensor')}")) == 2


def test_a_training_that_has_ended_is_not_stopped(tmp_path: Path) -> None:
    action = ActionSpec("*", "stop_training")
    writer = run_of(tmp_path, RuleSpec("e", "exploding_tensor"), actions=[action]).end()
    judge_run(writer.path, write=True, trust=WHOLE)
    assert control.read_requests(writer.path) == []
    assert read_lines(f"{writer.path}/{layout.ACTIONS}")[0]["outcome"] == "too late: the training had ended"


def test_an_action_that_fails_is_logged_and_the_evaluation_continues(tmp_path: Path) -> None:
    action = ActionSpec("*", "stop_training", parameters={"retries": 1, "backoff": 0.1})
    writer = run_of(tmp_path, RuleSpec("e", "exploding_tensor"), actions=[action])
    for each in sorted((Path(writer.path) / layout.CONTROL).rglob("*"), reverse=True):
        each.rmdir()
    (Path(writer.path) / layout.CONTROL).rmdir()
    (Path(writer.path) / layout.CONTROL).write_text("in the way")
    assert result(judge_run(writer.path, write=True, trust=WHOLE), "e").verdict == "fired"
    under_way, line = read_lines(f"{writer.path}/{layout.ACTIONS}")
    assert under_way["state"] == "asked"
    assert (line["state"], line["attempts"]) == ("failed", 2)
    assert line["outcome"].startswith("failed after 2 attempts: ")


def test_a_disk_that_is_full_for_a_while_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = iter([True] * 5)

    def refuse(write: Any) -> Any:
        def guarded(path: str, value: Any) -> None:
            if next(refusals, False):
                raise OSError(28, "No space left on device")
            write(path, value)

        return guarded

    for name in ("append_line", "write_document"):
        monkeypatch.setattr(rule_results, name, refuse(getattr(rule_results, name)))
    monkeypatch.setattr(rule_results, "_RETRY_SECONDS", 0.0)
    writer = run_of(tmp_path, RuleSpec("e", "exploding_tensor")).end()
    entries = rule_results.RuleResultStore(writer.path, [writer.manifest.rules[0]], is_written=True)
    finding = {**asdict(Finding(1, "e", 7, 7, True, 0, "loss is NaN")), "event": "opened"}
    entries.add("e", finding)
    for _ in range(5):
        entries.write(at_once=True)
        assert isinstance(entries.write_error, OSError)
    entries.finish()
    assert entries.write_error is None
    assert len(read_lines(f"{writer.path}/{layout.rule_findings('e')}")) == 1
    assert read_document(f"{writer.path}/{layout.RULE_SUMMARY}")["complete"]


@pytest.mark.parametrize(
    ("number", "kind", "advice"),
    [
        (errno.ENOSPC, StoreFullError, "; free disk space and judge again"),
        (errno.EDQUOT, StoreFullError, "; free disk space and judge again"),
        (errno.ENOENT, LeadlineError, "; judge again"),
    ],
)
def test_results_that_cannot_be_written_are_an_error_but_only_a_full_disk_is_called_full(
    number: int, kind: type[LeadlineError], advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, value: Any) -> None:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(rule_results, "write_document", refuse)
    writer = run_of(tmp_path, RuleSpec("e", "exploding_tensor")).end()
    with pytest.raises(LeadlineError) as caught:
        judge_run(writer.path, write=True, trust=WHOLE)
    assert type(caught.value) is kind
    assert str(caught.value).endswith(f"{layout.rule_status('e')}'{advice}")


def test_a_run_is_followed_until_it_is_over(tmp_path: Path) -> None:
    writer = run_of(tmp_path, RuleSpec("e", "exploding_tensor"), parts=[])
    found: list[Results] = []
    judge = threading.Thread(target=lambda: found.append(judge_run(writer.path, write=True, follow=True, trust=WHOLE)))
    judge.start()
    for _ in writer.grow(LOSSES):
        assert judge.is_alive()
    writer.end()
    judge.join(timeout=60)
    assert result(found[0], "e").judged_steps == 12


def test_a_run_without_rules_is_complete_at_once(tmp_path: Path) -> None:
    writer = run_of(tmp_path).end()
    assert judge_run(writer.path, write=True, trust=WHOLE).rules == ()
    assert read_document(f"{writer.path}/{layout.RULE_SUMMARY}")["complete"]


def test_a_damaged_run_is_judged_as_far_as_it_goes(tmp_path: Path) -> None:
    writer = run_of(tmp_path, RuleSpec("e", "exploding_tensor")).end()
    path = Path(writer.path) / layout.segment(layout.SERIES, "rank0-1", 1)
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    (Path(writer.path) / layout.WORKERS / "rank0-1.json").write_text("{")
    results = judge_run(writer.path, trust=WHOLE)
    assert result(results, "e").findings[0].step == 7
    assert len(results.damage) == 1


def test_a_folder_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError):
        judge_run(tmp_path)
    (tmp_path / layout.MANIFEST).write_text(json.dumps({"name": 1}))
    with pytest.raises(DamagedRunError):
        judge_run(tmp_path)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"lost": {"since_step": 5, "reason": "No space left on device", "rows": 3, "tensors": 0, "bytes": 9}},
            "dropped 3 rows since step 5: No space left on device",
        ),
        ({"off": {"step": 4, "error": "ValueError: planted"}}, "capture ended at step 4: ValueError: planted"),
    ],
)
def test_a_rule_whose_data_is_missing_is_not_clear(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    rules = [RuleSpec(name, name) for name in ("exploding_tensor", "stalled_training")]
    healthy: list[Part] = [Capture(step, {"loss": {"value": 1.0}}) for step in range(12)]
    writer = run_of(tmp_path, *rules, parts=healthy).end()
    assert result(judge_run(writer.path, trust=WHOLE), "exploding_tensor").verdict == "clear"
    writer.write_worker(next(iter(writer._steps)), state="ended", **changes)
    results = judge_run(writer.path, trust=WHOLE)
    incomplete = result(results, "exploding_tensor")
    assert (incomplete.status, incomplete.verdict, incomplete.why) == ("NoIssuesFound", "undecided", why)
    assert "dropped" not in result(results, "stalled_training").why


@pytest.mark.parametrize(
    "changes",
    [
        {"off": {"step": 4, "error": "ValueError: planted"}},
        {"lost": {"since_step": 5, "reason": "No space left on device", "rows": 3, "tensors": 0, "bytes": 9}},
    ],
)
def test_a_timeline_that_ends_early_is_not_clear(tmp_path: Path, changes: dict[str, Any]) -> None:
    steps = training([{"data": 1.0, "forward": 99.0}] * 80)
    writer = run_of(tmp_path, RuleSpec("input_bound", "input_bound"), parts=steps).end()
    assert result(judge_run(writer.path, trust=WHOLE), "input_bound").verdict == "clear"
    writer.write_worker(next(iter(writer._steps)), state="ended", **changes)
    assert result(judge_run(writer.path, trust=WHOLE), "input_bound").verdict == "undecided"


def test_dropped_raw_tensors_concern_only_rules_that_need_them(tmp_path: Path) -> None:
    healthy: list[Part] = [Capture(step, {"loss": {"value": 1.0}}) for step in range(3)]
    writer = run_of(tmp_path, RuleSpec("exploding_tensor", "exploding_tensor"), parts=healthy).end()
    lost = {"since_step": 1, "reason": "memory is full", "rows": 0, "tensors": 4, "bytes": 9}
    writer.write_worker(next(iter(writer._steps)), state="ended", lost=lost)
    assert result(judge_run(writer.path, trust=WHOLE), "exploding_tensor").verdict == "clear"
