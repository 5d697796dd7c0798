"""Rules that were added to a running run or removed from it."""

from __future__ import annotations

import time
from pathlib import Path

from leadline.judge.judge import judge_run
from leadline.judge.rule_changes import RuleChanges, rules_of
from leadline.records.manifest import RuleSpec
from leadline.records.request import AddRules, RemoveRules, Request, request_to_dict
from leadline.store import layout
from leadline.store.control import new_request_id, read_acknowledgements, write_request
from leadline.store.documents import write_document
from leadline.testing.runs import Capture, RunWriter


def give(run: str, *specs: RuleSpec, **parameters: object) -> Request:
    request = AddRules(new_request_id(), by="user", time_ns=time.time_ns(), rules=specs)
    document = request_to_dict(request)
    write_document(
        f"{run}/{layout.request(request.id)}", {**document, "parameters": document["parameters"] | parameters}
    )
    return request


def losses(path: Path, *rules: RuleSpec) -> RunWriter:
    writer = RunWriter(str(path), rules=rules)
    return writer.write_all([Capture(step, {"loss": {"value": float("nan")}}) for step in range(3)])


def test_a_run_is_judged_afterwards_with_its_added_rules(tmp_path: Path) -> None:
    writer = losses(tmp_path / "run", RuleSpec("loss_spike", "loss_spike"))
    give(writer.path, RuleSpec("bad", "exploding_tensor"))
    give(writer.path, RuleSpec("bad", "loss_spike"), RuleSpec("loss_spike", "exploding_tensor"))
    writer.end()
    assert [(each.alias, each.rule) for each in rules_of(writer.path, writer.manifest)] == [
        ("loss_spike", "loss_spike"),
        ("bad", "exploding_tensor"),
    ]
    judged = {each.name: each.status for each in judge_run(writer.path).rules}
    assert set(judged) == {"loss_spike", "bad"}
    assert judged["bad"] == "IssuesFound"


def test_a_request_is_taken_once_and_acknowledged(tmp_path: Path) -> None:
    writer = losses(tmp_path / "run")
    taken: list[RuleSpec] = []
    known = ["loss_spike"]

    def add(specs: object) -> None:
        for each in specs:  # type: ignore[attr-defined]
            taken.append(each)
            known.append(each.alias)

    added = RuleChanges(writer.path, lambda: known, add, lambda removed: None, lambda spec: True)
    first = give(writer.path, RuleSpec("bad", "exploding_tensor"))
    time.sleep(0.01)
    added.take(4)
    again = give(writer.path, RuleSpec("bad", "loss_spike"))
    torn = give(writer.path, rules=[{"alias": "x"}])
    hostile = give(writer.path, RuleSpec("../../x", "loss_spike"))
    added.take(5)
    added.take(6)
    assert [each.alias for each in taken] == ["bad"]
    answers = read_acknowledgements(writer.path)
    said = {name: (each.worker, each.step, str(each.answer)) for name, (each,) in answers.items()}
    assert said == {
        first.id: ("judge", 4, "taken"),
        again.id: ("judge", 5, "refused: a rule of that name exists already"),
        torn.id: ("judge", 5, "refused: it cannot be read"),
        hostile.id: ("judge", 5, "refused: it cannot be read"),
    }
    assert RuleChanges(writer.path, lambda: known, add, lambda removed: None, lambda spec: True).take(7) is None
    assert len(taken) == 1, "after a restart what was answered is not asked again"


def test_a_removed_rule_is_not_evaluated_again(tmp_path: Path) -> None:
    writer = losses(tmp_path / "run", RuleSpec("loss_spike", "loss_spike"), RuleSpec("bad", "exploding_tensor"))
    removed: list[str] = []
    changes = RuleChanges(
        writer.path, lambda: ["loss_spike", "bad"], lambda specs: None, removed.extend, lambda spec: True
    )
    request = RemoveRules(new_request_id(), by="user", rules=("bad", "unknown"))
    write_request(writer.path, request)
    changes.take(4)
    changes.take(5)
    assert removed == ["bad"]
    (answer,) = read_acknowledgements(writer.path)[request.id]
    assert (answer.worker, answer.step, str(answer.answer)) == ("judge", 4, "taken")
    give(writer.path, RuleSpec("bad", "exploding_tensor"))
    writer.end()
    assert [spec.alias for spec in rules_of(writer.path, writer.manifest)] == ["loss_spike"]
    assert [result.name for result in judge_run(writer.path).rules] == ["loss_spike"]
