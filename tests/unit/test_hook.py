"""``leadline.Hook`` without agent and judge: its run contains the captured data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import leadline
from leadline.errors import ConfigurationError, LeadlineError
from leadline.reader.run import Run
from leadline.training.session import api


def close_and_open(hook: leadline.Hook) -> Run:
    assert hook.run is not None
    assert hook.close()
    reopened = leadline.open_run(hook.run)
    (document,) = reopened.worker_documents().values()
    assert (document.off, document.lost) == (None, None)
    return reopened


def make(folder: Path, *capture: str, preset: str | None = "standard") -> leadline.Hook:
    return leadline.Hook(out=str(folder), name="run", preset=preset, capture=capture, budget="off")


def test_arrays_and_numbers_are_recorded_at_their_steps(tmp_path: Path) -> None:
    hook = make(tmp_path, "weights:every=2,raw=true,statistics=sum")
    weight = np.zeros(3)
    for step in range(5):
        weight += 1
        hook.save_tensor("weight", weight, collections="weights")
        hook.log(loss=1.0 / (step + 1), rate=step)
        hook.step()
    run = close_and_open(hook)
    assert run.steps(mode="train") == list(range(5))
    assert "step_skipped" not in run.timeline()["name"].to_pylist()
    weights = run.tensor("weight")
    assert [weights.statistic("sum", step) for step in (0, 2, 4)] == [3.0, 9.0, 15.0]
    np.testing.assert_array_equal(weights.value(2), np.full(3, 3.0))
    assert weights.collections == ("weights",)
    assert run.tensor("loss").collections == ("losses",)
    assert run.tensor("rate").collections == ("scalars",)
    assert [run.tensor("rate").statistic("value", step) for step in range(5)] == list(range(5))


def test_modes_have_their_own_steps(tmp_path: Path) -> None:
    hook = make(tmp_path, "default:every=1,modes=eval,statistics=max")
    for step in range(4):
        hook.log(loss=float(step))
        hook.step()
        if step % 2:
            with hook.mode("eval"):
                hook.log(loss=10.0 + step, score=0.5)
                hook.save_tensor("errors", np.array([step, 2 * step]))
                hook.step()
    run = close_and_open(hook)
    assert {mode: len(run.steps(mode=mode)) for mode in run.modes()} == {"train": 4, "eval": 2}
    losses = {
        row["mode_step"]: row["value"]
        for row in run.tensor("loss").statistics("value").to_pylist()
        if row["mode"] == "eval"
    }
    assert losses == {0: 11.0, 1: 13.0}
    assert [row["value"] for row in run.tensor("errors").statistics("max").to_pylist()] == [2.0, 6.0]


def test_an_array_can_have_its_own_mode(tmp_path: Path) -> None:
    hook = make(tmp_path, "default:every=1,modes=predict,statistics=max")
    hook.save_tensor("scores", np.array([1.0, 4.0]), mode="predict")
    hook.log(loss=1.0)
    hook.step()
    run = close_and_open(hook)
    assert set(run.modes()) == {"train", "predict"}
    assert run.tensor("scores").steps(mode="predict") == [0]


@pytest.mark.parametrize(
    ("argument", "note"),
    [
        ({"name": "text"}, "text is not captured: not a numeric array: str"),
        ({"a": 1}, "text is not captured: not a numeric array: dict"),
    ],
)
def test_values_that_are_not_arrays_are_noted(tmp_path: Path, argument: object, note: str) -> None:
    hook = make(tmp_path, "default:every=1")
    hook.save_tensor("text", "words" if note.endswith("str") else argument)
    hook.log(loss="none", rate=1.0)
    hook.step()
    run = close_and_open(hook)
    (document,) = run.worker_documents().values()
    assert document.notes == (note, "loss is not captured: not a number: str")
    assert run.tensor("rate").statistic("value", 0) == 1.0


def test_a_new_hook_closes_the_previous_one(tmp_path: Path) -> None:
    first = leadline.Hook(out=str(tmp_path), name="first")
    first.log(loss=1.0)
    first.step()
    second = leadline.Hook(out=str(tmp_path), name="second")
    second.log(loss=2.0)
    second.step()
    assert second.close()
    values = [leadline.open_run(hook.run).tensor("loss").statistic("value", 0) for hook in (first, second) if hook.run]
    assert values == [1.0, 2.0]
    assert api.current() is None


def test_a_disabled_hook_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_DISABLED", "1")
    with make(tmp_path) as hook:
        hook.save_tensor("weight", np.ones(2))
        hook.log(loss=1.0)
        with hook.mode("eval"):
            hook.step()
        hook.step()
    assert hook.run is None
    assert list(tmp_path.iterdir()) == []


def test_invalid_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="every must be at least 1"):
        make(tmp_path, "weights:every=0")
    with make(tmp_path) as hook, pytest.raises(LeadlineError, match="no mode named 'trian'"):
        hook.mode("trian")
