"""similar_across_runs: comparison with another run, live and afterwards, by rank and by tolerance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.errors import ConfigurationError
from leadline.judge.evaluator import Evaluator
from leadline.rules.tensors.similar_across_runs import SimilarAcrossRuns
from leadline.testing.runs import START_NS, Capture, RunWriter


def losses(*values: float, worker: str = "rank0-1") -> list[Capture]:
    return [Capture(step, {"loss": {"value": value}}, worker=worker) for step, value in enumerate(values)]


def write(path: Path, parts: list[Capture]) -> str:
    return RunWriter(path).write_all(parts).end().path


def judge(path: str, **parameters: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    rule = SimilarAcrossRuns(**{"other_trials": ("base",), **parameters})
    progress = Evaluator(path, [("it", rule)], started_ns=START_NS).advance(is_over=True)
    return progress.rules["it"], [event for _, event in progress.events]


def test_the_first_step_that_differs_is_named(tmp_path: Path) -> None:
    write(tmp_path / "base", losses(1.0, 0.5, 0.25))
    state, events = judge(write(tmp_path / "run", losses(1.0, 0.5, 0.3)))
    assert state["verdict"] == "fired"
    assert [(event["step"], event["message"]) for event in events] == [(2, "loss: 0.3, in base 0.25")]


def test_tolerances_are_relative_to_the_other_run(tmp_path: Path) -> None:
    write(tmp_path / "base", losses(1.0, 2.0))
    path = write(tmp_path / "run", losses(1.0, 2.5))
    assert judge(path, rtol=0.25, atol=0.0)[0]["verdict"] == "clear"
    assert judge(path, rtol=0.24, atol=0.0)[0]["verdict"] == "fired"
    assert judge(path, rtol=0.0, atol=0.5)[0]["verdict"] == "clear"


def test_nan_equals_nan(tmp_path: Path) -> None:
    nan, inf = float("nan"), float("inf")
    write(tmp_path / "base", losses(nan, inf, 1.0))
    assert judge(write(tmp_path / "same", losses(nan, inf, 1.0)))[0]["verdict"] == "clear"
    assert [verdict["step"] for verdict in judge(write(tmp_path / "run", losses(nan, inf, nan)))[1]] == [2]


def test_it_can_fire_on_equal_tensors(tmp_path: Path) -> None:
    write(tmp_path / "base", losses(1.0, 0.5))
    _, (opened, *_) = judge(write(tmp_path / "run", losses(1.0, 0.4)), fires_on="similar")
    assert (opened["step"], opened["message"]) == (0, "loss is the same as in base")


def test_bits_are_compared_with_zero_tolerances(tmp_path: Path) -> None:
    assert SimilarAcrossRuns(other_trials=("b",), rtol=0, atol=0).needs().tensors[0].statistics == ("value", "checksum")
    write(tmp_path / "base", [Capture(0, {"a.weight": {"checksum": 7.0}})])
    path = write(tmp_path / "run", [Capture(0, {"a.weight": {"checksum": 8.0}})])
    _, (opened,) = judge(path, rtol=0.0, atol=0.0)
    assert opened["message"] == "a.weight: its bits differ from base"


def test_workers_are_compared_by_rank(tmp_path: Path) -> None:
    write(tmp_path / "base", losses(1.0, worker="rank0-77") + losses(2.0, worker="rank1-78"))
    path = write(tmp_path / "run", losses(1.0, worker="rank0-5") + losses(2.0, worker="rank1-6"))
    assert judge(path)[0]["verdict"] == "clear"


def test_steps_missing_in_the_other_run_are_undecided(tmp_path: Path) -> None:
    write(tmp_path / "base", [Capture(0, {"other": {"value": 1.0}})])
    state, _ = judge(write(tmp_path / "run", losses(1.0)))
    assert (state["verdict"], state["judged_steps"]) == ("undecided", 1)
    assert state["why"] == "no tensor saved at this step was saved at the same step of base"


def test_a_live_judge_waits_for_the_other_run(tmp_path: Path) -> None:
    base = RunWriter(tmp_path / "base")
    run = RunWriter(tmp_path / "run").write_all(losses(1.0, 0.5))
    judging = Evaluator(run.path, [("it", SimilarAcrossRuns(other_trials=("base",)))], started_ns=START_NS)
    assert judging.advance().rules["it"]["judged_steps"] == 0
    base.write_all(losses(1.0, 0.75))
    assert judging.advance().rules["it"]["judged_steps"] == 1, "what the other run says of step 1 may grow"
    base.end()
    assert [event["step"] for _, event in judging.advance(is_over=True).events] == [1]


def test_a_missing_run_is_an_error_of_the_rule(tmp_path: Path) -> None:
    write(tmp_path / "baseline", losses(1.0))
    state, _ = judge(write(tmp_path / "run", losses(1.0)), other_trials=("basline",))
    assert "did you mean 'baseline'" in state["error"]


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(TypeError, match="other_trials"):
        SimilarAcrossRuns()
    with pytest.raises(ConfigurationError, match="fires_on must be one of 'different', 'similar'"):
        SimilarAcrossRuns(other_trials=("a",), fires_on="both")
