"""A run names code; it is executed only if a person has named it, or its agent was started with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.cli.judge import judge
from leadline.cli.show import show
from leadline.config.trust import digest_of_run
from leadline.control.requests import remove_rule_request, rule_request
from leadline.errors import ConfigurationError
from leadline.judge.judge import Judge, judge_run
from leadline.judge.run_trust import RunTrust
from leadline.reader.run import Run
from leadline.records.manifest import ActionSpec, RuleSpec
from leadline.records.request import AddRules
from leadline.store.control import new_request_id, read_acknowledgements, write_request
from leadline.testing.runs import Capture, RunWriter

EVIL = """
from leadline.rules import Clear, Needs, Rule

open({mark!r}, "w").close()

class Evil(Rule):
    def needs(self):
        return Needs.of("losses", "value")

    def evaluate(self, window):
        return Clear()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "notes.py").write_text(EVIL.format(mark=str(tmp_path / "imported")))
    return tmp_path


def their_run(folder: Path, *rules: RuleSpec, **options: Any) -> RunWriter:
    parts = [Capture(step, {"loss": {"value": 1.0 / (step + 1)}}) for step in range(9)]
    return RunWriter(folder / "run", rules=rules, **options).write_all(parts)


def has_imported(folder: Path) -> bool:
    mark = folder / "imported"
    was_imported = mark.exists()
    mark.unlink(missing_ok=True)
    return was_imported


RULES = (
    RuleSpec("exploding_tensor", "theirs/notes.py:Evil"),
    RuleSpec("module", "theirs.notes:Evil"),
    RuleSpec("built_in", "exploding_tensor"),
)


def test_judge_leaves_out_what_only_the_run_names(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    writer = their_run(folder, *RULES).end()
    writer.set_status("Completed", exit_status=0)
    run = writer.path
    show(run)
    assert judge([run], as_json=True) == 0
    assert not has_imported(folder)
    out, err = capfd.readouterr()
    rules = {rule["name"]: rule for rule in json.loads(out[out.index("\n[") :] if "\n[" in out else out)[0]["rules"]}
    assert rules["built_in"]["verdict"] == "clear"
    for name, code in (("exploding_tensor", "theirs/notes.py:Evil"), ("module", "theirs.notes:Evil")):
        assert (rules[name]["status"], rules[name]["verdict"]) == ("Stopped", "undecided")
        assert rules[name]["why"].endswith(f"if you trust the run: --trust-run, or this rule: --rule {name}={code}")
    assert err.endswith("only the run names their code: exploding_tensor, module; to take it: --trust-run\n")
    assert err.count("\n") == 1


def test_a_rule_that_is_left_out_is_no_success(folder: Path) -> None:
    run = their_run(folder, *RULES).end().path
    assert judge([run], fail_on_issues=True) == 1
    assert judge([run], rule=["exploding_tensor"], fail_on_issues=True) == 0
    assert not has_imported(folder)


def test_the_options_that_it_names_take_the_rules(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = their_run(folder, *RULES).end().path
    assert judge([run], trust_run=True, fail_on_issues=True) == 0
    assert has_imported(folder)
    assert judge([run], rule=["exploding_tensor=theirs/notes.py:Evil"], fail_on_issues=True) == 0
    assert has_imported(folder)
    assert "left out" not in capfd.readouterr().err


def test_in_a_program_as_well(folder: Path) -> None:
    run = their_run(folder, *RULES).end().path
    judged = {rule.name: rule for rule in judge_run(run).rules}
    assert not has_imported(folder)
    assert [judged[name].verdict for name in ("exploding_tensor", "built_in")] == ["undecided", "clear"]
    assert {rule.verdict for rule in judge_run(run, trust=RunTrust(is_whole=True)).rules} == {"clear"}
    assert has_imported(folder)


def test_a_judge_executes_only_what_its_agent_was_started_with(folder: Path) -> None:
    command = ActionSpec("*", "run_command", ("*",), {"command": "touch commanded"})
    writer = their_run(folder, RuleSpec("built_in", "exploding_tensor"))
    manifest = folder / "run" / "manifest.json"
    started = digest_of_run(json.loads(manifest.read_text()))
    changed = json.loads(manifest.read_text())
    changed["rules"].append({"alias": "late", "rule": "theirs/notes.py:Evil", "folder": str(folder)})
    changed["actions"] = [command.to_dict(), {"rule": "*", "action": "theirs/notes.py:Evil"}]
    manifest.write_text(json.dumps(changed))
    results = judge_run(writer.end().path, write=True, trust=RunTrust(digest=started))
    assert {rule.name: rule.verdict for rule in results.rules} == {"built_in": "clear", "late": "undecided"}
    assert not has_imported(folder)
    assert not list((folder / "run").glob("control/*.json"))


def request_of(spec: RuleSpec) -> AddRules:
    return AddRules(new_request_id(), by="user", rules=(spec,))


def test_a_request_adds_only_built_in_rules_and_code_of_the_start(folder: Path) -> None:
    own = RuleSpec("own", "theirs/notes.py:Evil", folder=str(folder))
    writer = their_run(folder, own)
    trust = RunTrust(digest=digest_of_run(writer.manifest.to_dict()))
    given = (
        RuleSpec("more", "exploding_tensor"),
        RuleSpec("again", "theirs/notes.py:Evil", folder=str(folder)),
        RuleSpec("same", "notes.py:Evil", folder=str(folder / "theirs")),
        RuleSpec("other", "notes.py:Evil", folder=str(folder / "elsewhere")),
        RuleSpec("exploding_tensor", "theirs.notes:Evil", folder=str(folder)),
    )
    requests = [request_of(spec) for spec in given]
    for request in requests:
        write_request(writer.path, request)
    judge = Judge(writer.path, trust=trust)
    judge._changes.take(0)
    answers = read_acknowledgements(writer.path)
    said = [str(answers[request.id][0].answer) for request in requests]
    refusal = "a running job takes only built-in rules and those with whose code it was started"
    taken = ["taken"] * 3
    assert said == [*taken, f"refused: notes.py:Evil: {refusal}", f"refused: theirs.notes:Evil: {refusal}"]
    writer.end()
    judged = {rule.name: rule.verdict for rule in judge_run(writer.path, trust=trust).rules}
    assert {name for name, verdict in judged.items() if verdict == "undecided"} == {"other", "exploding_tensor"}


def test_set_refuses_other_code_at_once_and_imports_none(folder: Path) -> None:
    writer = their_run(folder, RuleSpec("built_in", "exploding_tensor"))
    run = Run(writer.path)
    with pytest.raises(ConfigurationError, match=r"^theirs/notes.py:Evil: a running job takes only built-in .*--rule"):
        rule_request(RuleSpec("", "theirs/notes.py:Evil", folder=str(folder)), run, reason="test")
    write_request(writer.path, request_of(RuleSpec("added", "theirs/notes.py:Evil", folder=str(folder))))
    assert remove_rule_request("built_in", run, reason="test").rules == ("built_in",)
    assert not has_imported(folder)
