"""Control requests and acknowledgements."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.records.manifest import RuleSpec
from leadline.records.plan import CaptureItem, Schedule
from leadline.records.profile_window import ProfileWindow
from leadline.records.request import (
    AddRules,
    Answer,
    ControlRequest,
    ExecuteCommand,
    Profile,
    SetInterval,
    Stop,
    Track,
    UnreadableRequest,
    request_from_dict,
)
from leadline.store.control import (
    acknowledge,
    new_request_id,
    read_acknowledgements,
    read_requests,
    write_request,
)


def test_requests_are_read_in_the_order_of_creation(tmp_path: Path) -> None:
    requests = [Stop(new_request_id(), step=step) for step in range(5)]
    for request in reversed(requests):
        write_request(str(tmp_path), request)
    assert read_requests(str(tmp_path)) == requests


def test_invalid_files_hide_no_request(tmp_path: Path) -> None:
    request = Stop(new_request_id())
    write_request(str(tmp_path), request)
    for name, text in (("0.json", "[]"), ("1.json", '{"id": "1", "kin'), ("2.json", '{"foo": 1}'), ("x.part", "{}")):
        (tmp_path / "control" / name).write_text(text)
    assert read_requests(str(tmp_path)) == [request]


def test_acknowledgements(tmp_path: Path) -> None:
    assert acknowledge(str(tmp_path), "1", "rank0-1", 7, Answer("refused", "no")) == ""
    assert acknowledge(str(tmp_path), "1", "agent-a", -1, Answer()) == ""
    acknowledge(str(tmp_path), "2", "rank0-1", 8, Answer("done", "logged"))
    answers = read_acknowledgements(str(tmp_path))
    assert [(given.worker, given.step, str(given.answer)) for given in answers["1"]] == [
        ("agent-a", -1, "taken"),
        ("rank0-1", 7, "refused: no"),
    ]
    assert list(read_acknowledgements(str(tmp_path), {"2"})) == ["2"]
    assert read_requests(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("taken", Answer()),
        ("taken: also captures l2: of gradients", Answer("taken", "also captures l2: of gradients")),
        ("refused: the run had ended", Answer("refused", "the run had ended")),
        ("failed: exit status 1 after 1.0 s", Answer("failed", "exit status 1 after 1.0 s")),
        ("logged to wandb run abc", Answer("done", "logged to wandb run abc")),
        ("not to MLflow: refused: no", Answer("done", "not to MLflow: refused: no")),
    ],
)
def test_answers_keep_their_stored_form(text: str, answer: Answer) -> None:
    assert Answer.parse(text) == answer
    assert str(answer) == text


WINDOW = ProfileWindow("detailed", step=3, id="a")
ITEM = CaptureItem("gradients", statistics=("abs_mean",), schedule=Schedule(every=10, steps=(1, 2)), source="rule:a")


@pytest.mark.parametrize(
    "request_",
    [
        Stop("1", reason="why", by="rule:a", time_ns=7, step=9, grace_seconds=1.5),
        SetInterval("1", interval_ms=100),
        Profile("1", windows=(WINDOW,)),
        Profile("1", off=True),
        AddRules("1", rules=(RuleSpec("a", "stall", {"steps": 3}),), items=(ITEM,)),
        Track("1", rule="a", value=0.5, status="Error", step=4, message="m", to="mlflow"),
        ExecuteCommand("1", command="true", timeout=3.0, notice={"rule": "a"}),
    ],
)
def test_every_kind_of_request_is_read_as_it_was_written(tmp_path: Path, request_: ControlRequest) -> None:
    write_request(str(tmp_path), request_)
    assert read_requests(str(tmp_path)) == [request_]


def test_requests_of_earlier_versions_are_read() -> None:
    stop = {"id": "1", "kind": "stop", "step": 7, "reason": "r", "by": "user", "time_ns": 1, "grace_seconds": 2.0}
    assert request_from_dict({**stop, "parameters": {}}) == Stop("1", "r", "user", 1, step=7, grace_seconds=2.0)
    window = {"kind": "cprofile", "timer": "cpu"}
    profile = {**stop, "kind": "profile", "step": None, "parameters": {"windows": [window], "novelty": 1}, "new": 2}
    assert request_from_dict(profile) == Profile("1", "r", "user", 1, windows=(ProfileWindow("cprofile", "cpu"),))


@pytest.mark.parametrize(
    ("kind", "parameters", "problem"),
    [
        ("stpo", {}, "unknown request kind 'stpo'"),
        ("rule", {"items": [7]}, "invalid request: "),
        ("rule", {"items": [{"collection": "gradients", "modes": 7}]}, "invalid request: "),
        ("rule", {"rules": [{"alias": "x"}]}, "invalid request: "),
        ("track", {"value": 1.0}, "invalid request: "),
        ("profile", {"windows": 5}, "invalid request: "),
        ("profile", {"windows": [{"kind": "detailed", "step": "x"}]}, "invalid request: "),
    ],
)
def test_an_unreadable_request_has_its_problem(kind: str, parameters: object, problem: str) -> None:
    request = request_from_dict({"id": "1", "kind": kind, "parameters": parameters})
    assert isinstance(request, UnreadableRequest)
    assert request.named == kind
    assert request.problem.startswith(problem)
