"""``leadline check`` and ``leadline run --check`` with real trainings: results, and that nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from launching import LEADLINE, PATIENCE, bare, environment, rule, script, watched

from leadline.frameworks.torch.check.step_tape import TRANSFORMED
from leadline.reader.checks import read_checks

SCRIPT = script("checked.py")


def check(folder: Path, kind: str, *options: str, status: int | None = None) -> dict[str, Any]:
    """Check a training; return the report, and what the command wrote to standard error as ``err``."""
    # short, since the path of a socket of a loader's workers has at most 107 characters
    with tempfile.TemporaryDirectory() as temporary:
        done = subprocess.run(
            [*LEADLINE, "check", "--json", *options, SCRIPT, kind],
            cwd=folder,
            env=environment(TMPDIR=temporary),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert status in (None, done.returncode), (done.stdout, done.stderr)
        assert list(Path(temporary).glob("leadline*")) == []
    assert (folder / "leadline-runs").exists() == ("--keep" in options)
    assert left_processes(kind, folder) == []
    return {**json.loads(done.stdout), "err": done.stderr}


def left_processes(kind: str, folder: Path) -> list[str]:
    """Return the processes of the training that are still there a moment later."""
    for _ in range(50):
        if not (found := running(kind, folder)):
            break
        time.sleep(0.1)
    return [str(path) for path in found]


def running(kind: str, folder: Path) -> list[Path]:
    """Return the processes of the training that are there, as folders of /proc."""
    return [path for path in Path("/proc").glob("[0-9]*") if runs_in(path, kind, folder)]


def runs_in(process: Path, kind: str, folder: Path) -> bool:
    try:
        return words_of(process)[-3:-1] == [SCRIPT.encode(), kind.encode()] and (process / "cwd").readlink() == folder
    except OSError:
        return False


def words_of(process: Path) -> list[bytes]:
    """Return the command line of a process; nothing if it has ended."""
    try:
        return (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def outcomes(report: dict[str, Any]) -> dict[str, str]:
    return {entry["probe"]: entry["outcome"] for entry in report["checks"]}


def reasons(report: dict[str, Any]) -> set[str]:
    return {entry["message"] for entry in report["checks"] if entry["outcome"] == "not applicable"}


def test_a_healthy_training_passes_and_ends_at_the_step(tmp_path: Path) -> None:
    report = check(tmp_path, "plain", status=0)
    assert (report["step"], report["run"]) == (2, None)
    found = outcomes(report)
    assert "failed" not in found.values()
    modes = next(entry["message"] for entry in report["checks"] if entry["probe"] == "mode_mismatch")
    assert modes == "1 dropout follows the mode of the model"
    assert [found[probe] for probe in ("mixed_samples", "unused_inputs", "loss_direction", "incomplete_state")] == [
        "passed"
    ] * 4
    assert "weights" not in report["err"]


def test_a_kept_run_goes_on_with_equal_weights(tmp_path: Path) -> None:
    weights = bare("checked.py", "plain", folder=tmp_path).out.strip()
    only = ("--only", "mixed_samples", "--only", "mode_mismatch")
    report = check(tmp_path, "plain", "--continue", "--keep", "--step", "1", *only, status=0)
    assert weights in report["err"]
    assert (report["step"], list(outcomes(report))) == (1, ["mixed_samples", "mode_mismatch"])
    ((_, results),) = read_checks(report["run"]).items()
    assert [(result.probe, result.step) for result in results] == [("mixed_samples", 1), ("mode_mismatch", 1)]


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("plain", ("--step", "50"), "the training ended before the step that was to be checked"),
        ("never", (), "no train step was seen"),
        ("fails", (), "no train step was seen"),
    ],
)
def test_what_cannot_be_tested_says_why(tmp_path: Path, kind: str, options: tuple[str, ...], reason: str) -> None:
    assert reasons(check(tmp_path, kind, *options, status=1)) == {reason}


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("sleeps", ("--seconds", "2"), "the time limit of 6 s was reached before"),
        ("computes", ("--seconds", "2"), r"the time limit of (2 s of the processor|6 s) was reached before"),
        ("killed", (), "the copy of the training was ended"),
        ("raises", (), "only trained, never evaluated"),
        ("exhausts", (), "memory"),
    ],
)
def test_a_probe_that_hangs_dies_or_raises_ends_alone(
    tmp_path: Path, kind: str, options: tuple[str, ...], reason: str
) -> None:
    weights = bare("checked.py", kind, folder=tmp_path).out.strip()
    report = check(tmp_path, kind, "--continue", "--only", "mixed_samples", *options, status=1)
    (why,) = reasons(report)
    assert re.search(reason, why)  # on a busy machine the copy has little of a processor
    assert "weights" in weights
    assert weights in report["err"]


def test_the_copy_ends_even_if_the_training_is_killed(tmp_path: Path) -> None:
    words = [*LEADLINE, "check", "--seconds", "3", "--only", "mixed_samples", SCRIPT, "sleeps"]
    with tempfile.TemporaryDirectory() as temporary:
        command = subprocess.Popen(
            words, cwd=tmp_path, env=environment(TMPDIR=temporary), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        end = time.monotonic() + PATIENCE
        while len(trained := trainings("sleeps", tmp_path)) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        os.kill(min(trained), signal.SIGKILL)  # the copy has started after it
        command.communicate(timeout=PATIENCE)
        while trainings("sleeps", tmp_path) and time.monotonic() < end:
            time.sleep(0.1)
        assert running("sleeps", tmp_path) == []
        assert list(Path(temporary).glob("leadline*")) == []


def trainings(kind: str, folder: Path) -> list[int]:
    """Return the processes of the training that are no command of Leadline."""
    return [
        int(path.name)
        for path in running(kind, folder)
        if not any(word.startswith(b"leadline") for word in words_of(path))
    ]


@pytest.mark.parametrize(
    "kind", ["waits", "lbfgs", "accumulated", "scaled", "workers", "autocast", "compiled", "strided"]
)
def test_trainings_of_every_style_are_tested_with_equal_weights(tmp_path: Path, kind: str) -> None:
    without = bare("checked.py", kind, folder=tmp_path)
    report = check(tmp_path, kind, "--continue", "--only", "mixed_samples", "--only", "unused_inputs", status=0)
    assert outcomes(report) == {"mixed_samples": "passed", "unused_inputs": "passed"}
    assert [line for line in without.lines if line not in report["err"]] == []


KINDS = ("frozen", "closure", "accumulation", "scaled_bfloat16", "loading", "tied", "checkpointed", "nested")
"""Of the kinds of ``test_kinds``, those that differ most in how a step is recorded for its copy."""


def test_trainings_have_equal_weights_beside_their_copies(tmp_path: Path) -> None:
    """All kinds are in ``test_kinds``, which is slow."""
    diaries = []
    for place, options in (("bare", None), ("copied", ("--no-default-rules", "--rule", "model_inputs"))):
        folder = tmp_path / place
        folder.mkdir()
        words = (script("kinds.py"), ".", *KINDS)
        ended = (
            bare("kinds.py", ".", *KINDS, folder=folder) if options is None else watched(options, *words, folder=folder)
        )
        assert ended.status == 0, ended.err
        diaries.append({kind: json.loads((folder / f"{kind}.json").read_text()) for kind in KINDS})
    without, found = diaries
    for kind in KINDS:
        for what in ("digest", "facts", "losses", "settings"):
            assert found[kind][what] == without[kind][what], kind
    assert len(read_checks(ended.run.path)) == len(KINDS)


def test_two_models_of_a_class_are_told_apart_by_their_variables(tmp_path: Path) -> None:
    found = {entry["probe"]: entry for entry in check(tmp_path, "two", status=1)["checks"]}
    assert found["incomplete_state"]["outcome"] == "failed"
    assert found["incomplete_state"]["message"].startswith("critic.noise looks random")
    assert "x of generator 16 x 8" in found["model_inputs"]["message"]
    assert "x of critic 16 x 16" in found["model_inputs"]["message"]


def test_a_training_with_transformed_functions_is_left_alone(tmp_path: Path) -> None:
    without = bare("checked.py", "functional", folder=tmp_path)
    ended = watched(("--check", "--no-default-rules"), SCRIPT, "functional", folder=tmp_path)
    assert (ended.status, ended.out) == (0, without.out)
    ((_, results),) = read_checks(ended.run.path).items()
    assert {result.message for result in results} == {TRANSFORMED}


def test_a_compiled_training_is_not_checked_while_it_runs(tmp_path: Path) -> None:
    without = bare("checked.py", "compiled", folder=tmp_path)
    ended = watched(("--check", "--no-default-rules"), SCRIPT, "compiled", folder=tmp_path)
    assert (ended.status, ended.out) == (0, without.out)
    ((_, results),) = read_checks(ended.run.path).items()
    assert {result.message for result in results} == {"the script uses torch.compile"}


@pytest.mark.slow
def test_a_training_is_checked_again_later_while_it_runs(tmp_path: Path) -> None:
    without = bare("checked.py", "late", folder=tmp_path)
    ended = watched(("--check",), SCRIPT, "late", str(tmp_path / "runs"), folder=tmp_path)
    assert (ended.status, ended.out) == (0, without.out)
    ((_, results),) = read_checks(ended.run.path).items()
    failed = {result.probe: result.step for result in results if result.outcome == "failed"}
    assert failed == {"ignored_input": 501, "model_inputs": 501}
    assert {result.step for result in results if result.outcome == "passed"} == {101, 501}
    assert ended.run.collections()["losses"] == ["CrossEntropyLoss_output_0"]  # that of a copied step, too
    (finding,) = rule(ended.show(), "ignored_input")["findings"]
    assert finding["evidence"]["checked_step"] == 501
