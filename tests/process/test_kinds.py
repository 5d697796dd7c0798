"""Every kind of training is watched without changing a bit of it, and what is stored is what it saw itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launching import Ended, bare, environment, finish, losses, script, watched

from leadline.reader.run import Run

KINDS = (
    "frozen", "adversarial", "closure", "accumulation", "scaled_bfloat16", "scaled_float16", "scaled_fused", "loading",
    "threaded", "rebuilt", "sparse", "tied", "checkpointed", "nested", "copied", "raising", "penalised",
)  # fmt: skip
SCALED = ("scaled_bfloat16", "scaled_float16", "scaled_fused")
OVERFLOW_STEP = 5
CAPTURE = ("--capture", "all:every=1", "--capture", "all:every=1,raw=true")


class Watched:
    """The run of all kinds, and what each kind wrote of itself."""

    def __init__(self, ended: Ended, diaries: Path) -> None:
        self.ended, self.run = ended, ended.run
        self.series = self.run.series().to_pylist()
        self._diaries = diaries

    def diary(self, kind: str) -> dict[str, Any]:
        return dict(json.loads((self._diaries / f"{kind}.json").read_text()))

    def worker(self, kind: str) -> str:
        return f"rank0-{self.diary(kind)['pid']}"

    def document(self, kind: str) -> dict[str, Any]:
        return dict(self.run.worker_documents()[self.worker(kind)])

    def names(self, kind: str) -> set[str]:
        """The losses and parameters of a kind, without what its modules take and give and its optimizer's settings."""
        worker = self.worker(kind)
        other = {*self.run.tensor_names(collection="layers"), *self.run.tensor_names(collection="hyperparameters")}
        return {row["name"] for row in self.series if row["worker"] == worker} - other

    def events(self, kind: str, name: str) -> list[int]:
        worker = self.worker(kind)
        rows = self.run.timeline().to_pylist()
        return [row["step"] for row in rows if row["worker"] == worker and row["name"] == name]


@pytest.fixture(scope="module")
def unwatched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bare")
    ended = bare("kinds.py", ".", *KINDS, folder=folder)
    assert ended.status == 0, ended.err
    return folder


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    folder = tmp_path_factory.mktemp("watched")
    ended = watched(CAPTURE, script("kinds.py"), ".", *KINDS, folder=folder)
    assert ended.status == 0, ended.err
    return Watched(ended, folder)


def test_all_kinds_are_told_of(watch: Watched) -> None:
    done = finish(
        [sys.executable, "-c", "import kinds; print(*kinds.KINDS)"],
        Path(script(".")), env=environment(),
    )  # fmt: skip
    assert tuple(done.out.split()) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_the_weights_are_bit_identical(watch: Watched, unwatched: Path, kind: str) -> None:
    without = json.loads((unwatched / f"{kind}.json").read_text())
    assert watch.diary(kind)["digest"] == without["digest"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_are_counted(watch: Watched, kind: str) -> None:
    document = watch.document(kind)
    assert document["steps"] == {"train": watch.diary(kind)["steps"]}
    assert document["state"] == "ended"
    assert (document["off"], document["lost"]) == (None, None)


@pytest.mark.parametrize("kind", KINDS)
def test_the_names_are_the_models(watch: Watched, kind: str) -> None:
    diary = watch.diary(kind)
    gradients = {f"gradient/{name}" for name in diary["gradients"]}
    assert watch.names(kind) == {*diary["losses"], *diary["weights"], *gradients}


@pytest.mark.parametrize("kind", KINDS)
def test_the_losses_are_what_the_script_saw(watch: Watched, kind: str) -> None:
    diary = watch.diary(kind)
    for name, steps in diary["losses"].items():
        captured = losses(watch.run, name, watch.worker(kind))
        expected = {int(step): np.mean(values) for step, values in steps.items()}
        untold = {OVERFLOW_STEP} if kind == "raising" else set()
        assert captured.keys() - untold == expected.keys()
        for step, value in expected.items():
            assert captured[step] == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_and_gradients_are_stored_as_the_optimizer_used_them(watch: Watched, kind: str) -> None:
    for name, step, expected in captures(watch.diary(kind)):
        if kind == "sparse" and name == "gradient/0.weight":
            continue
        stored = watch.run.tensor(name).value(step, worker=watch.worker(kind))
        assert stored.dtype == np.float32
        np.testing.assert_array_equal(stored.reshape(-1), expected.astype(np.float32), err_msg=f"{name} at {step}")


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_are_those_of_the_tensors(watch: Watched, kind: str) -> None:
    for name, step, expected in captures(watch.diary(kind)):
        finite = expected[np.isfinite(expected)]
        bad = expected.size - finite.size
        assert statistic(watch, kind, name, "nonfinite_count", step) == bad
        if bad:
            continue
        assert statistic(watch, kind, name, "l2", step) == pytest.approx(np.linalg.norm(expected), rel=1e-5)
        rounding = 1e-6 * np.abs(expected).max()
        assert statistic(watch, kind, name, "mean", step) == pytest.approx(expected.mean(), abs=rounding)
        assert statistic(watch, kind, name, "max", step) == pytest.approx(expected.max(), rel=1e-6)
        assert statistic(watch, kind, name, "zero_ratio", step) == pytest.approx(np.mean(expected == 0))


def statistic(watch: Watched, kind: str, name: str, statistic: str, step: int) -> float:
    return watch.run.tensor(name).statistic(statistic, step, worker=watch.worker(kind))


def captures(diary: dict[str, Any]) -> list[tuple[str, int, np.ndarray[Any, Any]]]:
    """Every tensor at every step, as the script saw it."""
    books = {**diary["weights"], **{f"gradient/{name}": steps for name, steps in diary["gradients"].items()}}
    return [(name, int(step), np.array(values)) for name, steps in books.items() for step, values in steps.items()]


@pytest.mark.parametrize("kind", SCALED)
def test_a_skipped_step_is_marked_and_its_gradients_are_seen(watch: Watched, kind: str) -> None:
    assert watch.events(kind, "step_skipped") == [OVERFLOW_STEP]
    assert statistic(watch, kind, "gradient/2.weight", "nonfinite_count", OVERFLOW_STEP) > 0
    updates = watch.run.tensor("2.weight").statistics("update_ratio").to_pylist()
    steps = [row["step"] for row in updates if row["worker"] == watch.worker(kind)]
    assert steps == [step for step in range(12) if step != OVERFLOW_STEP]


def test_only_the_overflow_is_found(watch: Watched) -> None:
    found = {row["worker"] for row in watch.run.findings().to_pylist()}
    assert found <= {watch.worker(kind) for kind in SCALED}


def test_a_step_that_the_scaler_skips_is_no_alarm(watch: Watched) -> None:
    assert watch.run.findings().num_rows == 0


def test_processes_that_do_not_train_stay_silent(watch: Watched) -> None:
    """Neither the parent of all kinds nor the workers of a data loader leave a trace."""
    assert set(watch.run.worker_documents()) == {watch.worker(kind) for kind in KINDS}
    assert {each.name for each in Path(watch.run.path, "series").iterdir()} == {watch.worker(kind) for kind in KINDS}


def test_micro_batches_are_counted(watch: Watched) -> None:
    worker = watch.worker("accumulation")
    counts = watch.run.tensor("loss").statistics("count").to_pylist()
    assert {row["value"] for row in counts if row["worker"] == worker} == {4.0}


def test_the_clock_changes_hands_when_a_model_is_rebuilt(watch: Watched) -> None:
    assert watch.events("rebuilt", "clock_owner") == [4, 8]


def test_a_sparse_gradient_is_told_as_not_stored(watch: Watched) -> None:
    (note,) = watch.document("sparse")["notes"]
    assert note.startswith("gradient/0.weight is not stored: only dense tensors")


def test_the_models_are_still_told_when_they_are_gone(watch: Watched) -> None:
    told = {kind: (watch.document(kind)["models"], watch.document(kind)["optimizers"]) for kind in KINDS}
    assert told["nested"] == ([{"name": "Sequential", "parameters": 4}], ["Careful"])
    assert told["tied"] == ([{"name": "Tied", "parameters": 1}], ["AdamW"])
    assert sorted(each["name"] for each in told["adversarial"][0]) == ["Discriminator", "Generator"]


def test_runs_can_be_verified(watch: Watched) -> None:
    run = Run(watch.run.path)
    assert run.verify() == []
