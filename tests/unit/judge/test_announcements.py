"""Announcements in the terminal: each once, and a cause in place of its effects."""

from __future__ import annotations

from dataclasses import replace

from leadline.judge.announcements import Announcements
from leadline.records import describe
from leadline.records.documents import Announcement
from leadline.records.finding import Finding

CAUSES = {"vanishing": "cut", "unused": "cut"}


def found(rule: str, step: int = 3) -> Finding:
    return Finding(1, rule, step, step, True, 0, "it is so")


def test_a_finding_is_announced_once() -> None:
    announcements = Announcements()
    assert announcements.add_finding(found("cut"), None, {})
    assert not announcements.add_finding(found("cut"), None, {})
    assert announcements.add_finding(found("cut", step=4), None, {})
    assert [(line.id, line.step) for line in announcements.lines] == [(1, 3), (2, 4)]


def test_a_rule_that_fires_again_repeats_the_first_part_of_its_message() -> None:
    announcements = Announcements()
    for step in (3, 4, 5):
        finding = replace(found("fall", step), message=f"it fell to {step}; what moved before: the rate")
        for _ in range(2):
            announcements.add_finding(finding, "stopping" if step == 5 else None, {})
    assert [line.message for line in announcements.lines] == [
        "it fell to 3; what moved before: the rate",
        "again, it fell to 4",
        "it fell to 5; what moved before: the rate",
    ]
    restored = Announcements()
    restored.restore(announcements.lines)
    assert not restored.add_finding(replace(found("fall", 4), message="it fell to 4; what moved"), None, {})


def test_an_effect_is_announced_only_with_its_action() -> None:
    announcements = Announcements()
    assert announcements.add_finding(found("cut"), None, CAUSES)
    assert not announcements.add_finding(found("vanishing"), None, CAUSES)
    assert announcements.add_finding(found("unused"), "stopping at step 3", CAUSES)
    assert [line.rule for line in announcements.lines] == ["cut", "unused"]


def test_a_cause_names_the_effects_that_were_announced_before_it() -> None:
    announcements = Announcements()
    announcements.add_finding(found("vanishing"), None, {})
    announcements.add_finding(found("other"), None, {})
    announcements.add_finding(found("cut"), None, CAUSES)
    line = announcements.lines[-1]
    assert line.explains == ("vanishing",)
    assert describe.announcement(line) == "step 3  cut: it is so (explains vanishing)"


def test_the_outcome_of_an_action_is_announced_once() -> None:
    announcements = Announcements()
    announcements.restore([Announcement(1, 3, "cut", "it is so")])
    assert announcements.add_action("cut", "webhook: sent", False)
    assert not announcements.add_action("cut", "webhook: sent", False)
    assert announcements.add_action("cut", "webhook: sent", True)
    assert [(line.id, line.kind) for line in announcements.lines] == [(1, None), (2, "action"), (3, "failure")]
