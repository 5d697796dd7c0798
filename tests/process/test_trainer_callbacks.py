"""Callbacks of ``leadline.integrations``, in real trainings with the real libraries."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import pytest
from launching import LEADLINE, PATIENCE, environment, finish, script, show
from recorded import recorded

import leadline
from leadline.reader.run import Run
from leadline.records.names import REMAINING_STEPS

VENVS = Path(__file__).parents[2] / ".venvs"
PYTHON = str(VENVS / "loggers" / "bin" / "python")
SCRIPT = script("trainer_callbacks.py")
OFFLINE = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
STEPS = 20
KERAS = {
    "keras": ("tensorflow", "tensorflow"),
    "keras_on_torch": ("tensorflow", "torch"),
    "keras_on_jax": ("jax", "jax"),
}
"""The environment and the backend of each kind with Keras."""
LOOPS = ("transformers", "lightning", *KERAS, "stable_baselines3")
KINDS = (*LOOPS, "accelerate")
CHECKPOINTS = {"stable_baselines3": [2, 10, 18, 19]} | {kind: [9, 19] for kind in KERAS}
"""The steps after which a kind saves its model: at every 8th of the environment and the end, or after each epoch."""
MEASURED = ("rss_bytes", "time", "second", "fps")
"""Parts of names of what is measured anew in each training."""

pytestmark = pytest.mark.slow


@cache
def trained(kind: str) -> tuple[dict[str, str], dict[str, int], dict[str, list[str]], Path]:
    """Train a kind in all ways in one process; return digests, steps and checkpoints of each, and the runs."""
    name, backend = KERAS.get(kind, ("loggers", ""))
    python = str(VENVS / name / "bin" / "python")
    ended, folder = recorded([python, SCRIPT, kind], KERAS_BACKEND=backend, **OFFLINE)
    assert ended.status == 0, ended.err
    told = [line.split() for line in ended.lines if line.startswith((f"{kind} ", "saved "))]
    rows = {words[1]: words[2:] for words in told}
    digests = {how: words[0] for how, words in rows.items() if how != kind}
    steps = {how: int(words[1]) for how, words in rows.items() if how != kind}
    return digests, steps, {kind: rows.get(kind, [])}, folder / "leadline-runs"


def opened(kind: str, how: str) -> Run:
    return leadline.open_run(trained(kind)[3] / f"{kind}-{how}")


def document(kind: str, how: str):
    (found,) = opened(kind, how).worker_documents().values()
    assert (found.off, found.lost, found.notes) == (None, None, ())
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_has_the_same_bits_with_its_callback(kind: str) -> None:
    digests, steps, _, _ = trained(kind)
    assert digests["called"] == digests["captured"] == digests["bare"]
    assert steps["called"] == document(kind, "called").steps["train"] == STEPS


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_counted_twice_under_a_launcher(kind: str) -> None:
    """Only the epoch is added, where the trainer logs none, and the steps that it plans."""
    called, captured = scalars(opened(kind, "called")), scalars(opened(kind, "captured"))
    assert captured.items() <= called.items()
    assert {name for name, _, _ in called.keys() - captured.keys()} <= {"epoch", REMAINING_STEPS}


def scalars(run: Run) -> dict[tuple[str, str, int], float]:
    """Return what the run has of losses, metrics and gradients; each has one value in a step."""
    rows = [row for row in run.scalars().to_pylist() if not any(word in row["name"] for word in MEASURED)]
    found = {(row["name"], row["mode"], row["step"]): row["value"] for row in rows}
    assert len(found) == len(rows)
    return {key: value for key, value in found.items() if not math.isnan(value)}


@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_that_the_trainer_plans_are_known(kind: str) -> None:
    assert document(kind, "captured").planned_steps is None
    assert document(kind, "called").planned_steps == STEPS
    if kind in LOOPS:
        assert document(kind, "stopped").planned_steps == STEPS


@pytest.mark.parametrize("kind", LOOPS)
def test_checkpoints_are_known_with_their_steps(kind: str) -> None:
    saved = document(kind, "called").checkpoints
    assert [checkpoint.step for checkpoint in saved] == CHECKPOINTS.get(kind, [4, 9, 14, 19])
    assert sorted(checkpoint.path for checkpoint in saved) == trained(kind)[2][kind]
    summary = show(opened(kind, "called").path)
    assert (summary["planned_steps"], summary["checkpoint"]["step"]) == (STEPS, 19)


@pytest.mark.parametrize("kind", [*LOOPS, "trl", "peft"])
def test_a_stop_ends_the_loop_and_the_script_goes_on(kind: str) -> None:
    """The request does not say that the script may finish."""
    _, steps, _, _ = trained(kind)
    told = document(kind, "stopped")
    assert steps["stopped"] == told.steps["train"] < STEPS
    assert steps["stopped"] == 10 or kind == "stable_baselines3"  # it also counts the steps of the policy
    assert not told.ends_own_loop


def test_a_tracker_is_told_hyperparameters() -> None:
    assert document("accelerate", "called").hyperparameters == {"lr": 0.01, "width": 8, "max_train_steps": STEPS}


def stopped(folder: Path, *words: str, trainer: str) -> list[int]:
    """Train until a rule stops it, and the script has ended well; return at which step each trainer has ended.

    Without its callback, signals would end the script at once.
    """
    ended = finish([*words, script("trainers_stopped.py"), trainer, "called"], folder, env=environment(**OFFLINE))
    assert ended.status == 0, ended.err
    assert ended.show()["status"] == "Stopped", ended.err
    return [int(line.split()[-1]) for line in ended.lines if line.startswith("ended at ")]


def test_a_callback_watches_by_itself_and_a_rule_ends_its_trainer(tmp_path: Path) -> None:
    (step,) = stopped(tmp_path, PYTHON, trainer="lightning")
    assert 20 < step < 20_000


def test_under_a_launcher_the_agent_leaves_the_script_alone(tmp_path: Path) -> None:
    stop = ("--on", "exploding_tensor=stop_training:grace=0")
    words = (PYTHON, *LEADLINE[1:], "run", "--out", str(tmp_path / "runs"), *stop, "--", PYTHON)
    (step,) = stopped(tmp_path, *words, trainer="transformers")
    assert 20 < step < 20_000
    assert (tmp_path / "out" / "trainer_state.json").exists()


def test_ranks_that_watch_by_themselves_are_one_run_and_end_together(tmp_path: Path) -> None:
    ranks = (PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    steps = stopped(tmp_path, *ranks, trainer="transformers")
    assert len(steps) == 2
    assert len(set(steps)) == 1
    (run,) = (tmp_path / "runs").iterdir()
    assert len(leadline.open_run(run).worker_documents()) == 2


@cache
def trained_by_ray() -> Path:
    # three times two workers, each of which imports PyTorch
    words = [str(VENVS / "ray" / "bin" / "python"), script("ray_trained.py")]
    ended, folder = recorded(words, patience=3 * PATIENCE)
    assert ended.status == 0, ended.err
    return folder


def test_workers_of_ray_train_are_one_run_with_the_same_bits() -> None:
    folder = trained_by_ray()
    assert (folder / "healthy").read_text() == (folder / "bare").read_text()
    run = leadline.open_run(folder / "runs" / "healthy")
    workers = run.worker_documents().values()
    assert (run.status, [(worker.steps["train"], worker.off, worker.notes) for worker in workers]) == (
        "Completed",
        [(STEPS, None, ())] * 2,
    )
    scores = [(row["worker"], row["step"], row["value"]) for row in run.scalars().to_pylist() if row["name"] == "score"]
    assert sorted(scores) == [
        (name, step, step / 10) for name in sorted(run.worker_documents()) for step in range(4, 20, 5)
    ]
    (first,) = (worker.checkpoints for worker in workers if worker.checkpoints)  # one worker reports them
    assert [checkpoint.step for checkpoint in first] == [9, 19]
    assert all(Path(checkpoint.path, "weights.pt").is_file() for checkpoint in first)


def test_a_stop_ends_the_workers_of_ray_train_together_and_fit_returns() -> None:
    run = leadline.open_run(trained_by_ray() / "runs" / "broken")
    assert run.status == "Stopped"
    (first, second) = run.worker_documents().values()
    assert 20 < first.steps["train"] == second.steps["train"] < 20_000
