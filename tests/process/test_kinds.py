"""Capture of every kind of training: bit-identical results, and stored data equal to the data of the script."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from launching import environment, finish, script
from recorded import recorded, recorded_run
from safetensors.torch import load_file

from leadline.reader.checks import read_checks
from leadline.reader.run import Run
from leadline.records.check_result import CheckResult
from leadline.records.documents import WatchedModel, WorkerDocument

pytestmark = pytest.mark.slow
GROUPS = (
    (
        "within_backward",
        "layered",
        "phases",
        "swept",
        "federated",
        "engines",
        "together",
        "sharpened",
        "named_closure",
        "scheduled",
        "scaled_twice",
        "unscaled",
    ),
    (
        "partly",
        "joined",
        "complex_numbers",
        "double_precision",
        "half_precision",
        "channels_last",
        "thawing",
        "without_modules",
        "reshaped_names",
        "split",
        "fast_path",
        "modes",
        "scripted",
        "transformed",
        "counted",
        "averaged",
    ),
    ("spawn_loading", "spawned", "served", "forking", "parallel", "collected", "duet"),
    (
        "frozen",
        "adversarial",
        "closure",
        "accumulation",
        "scaled_bfloat16",
        "scaled_float16",
        "scaled_fused",
        "loading",
        "threaded",
        "rebuilt",
        "sparse",
        "tied",
        "checkpointed",
        "nested",
        "copied",
        "raising",
        "penalised",
    ),
)
"""Each group is one launched run."""
KINDS = tuple(kind for group in GROUPS for kind in group)
CHILDREN = {"spawned": ("spawned_0", "spawned_1"), "served": ("served_0",), "forking": ("forking", "forking_0")}
"""Kinds that train in separate processes, and the diaries of these processes."""
DIARIES = tuple(diary for kind in KINDS for diary in CHILDREN.get(kind, (kind,)))
UNTOLD = ("duet", "counted")
"""Kinds whose diaries have no steps; only bit-identical results are tested."""
TOLD = tuple(diary for diary in DIARIES if diary not in UNTOLD)
TYPES = {
    "complex_numbers": torch.complex64,
    "double_precision": torch.float64,
    "half_precision": torch.bfloat16,
}
SCALED = ("scaled_bfloat16", "scaled_float16", "scaled_fused")
OVERFLOW_STEP = 5
CAPTURE = ("--capture", "all:every=1", "--capture", "all:every=1,raw=true")


class Watched:
    """The runs of all kinds, and the diary that each kind wrote."""

    def __init__(self, runs: Sequence[Run], folders: Sequence[Path]) -> None:
        self.runs, self._folders = runs, folders
        self.series = [row for run in runs for row in run.series().to_pylist()]
        self.events_told = [row for run in runs for row in run.timeline().to_pylist()]
        self.documents = {name: document for run in runs for name, document in run.worker_documents().items()}
        self.findings = [row for run in runs for row in run.findings().to_pylist()]
        self.values: dict[tuple[str, str, str], dict[int, float]] = {}
        for row in self.series:
            self.values.setdefault((row["worker"], row["name"], row["statistic"]), {})[row["step"]] = row["value"]

    def diary(self, kind: str) -> dict[str, Any]:
        return read_diary(next(folder for folder in self._folders if (folder / f"{kind}.json").exists()), kind)

    def worker(self, kind: str) -> str:
        return f"rank0-{self.diary(kind)['pid']}"

    def document(self, kind: str) -> WorkerDocument:
        return self.documents[self.worker(kind)]

    def names(self, kind: str) -> set[str]:
        """Return the names of the losses and parameters of a kind."""
        worker, collections = self.worker(kind), ("losses", "gradients", "weights", "biases")
        (run,) = (candidate for candidate in self.runs if worker in candidate.workers())
        own = {name for collection in collections for name in run.tensor_names(collection=collection)}
        return {row["name"] for row in self.series if row["worker"] == worker} & own

    def steps(self, kind: str, name: str, statistic: str) -> dict[int, float]:
        return self.values[self.worker(kind), name, statistic]

    def stored(self, kind: str) -> dict[str, torch.Tensor]:
        """Return all raw tensors of a kind by ``train/<step>/<name>``."""
        files = (
            path for run in self.runs for path in Path(run.path, "tensors", self.worker(kind)).glob("*.safetensors")
        )
        return {key: value for file in files for key, value in load_file(file).items()}

    def events(self, kind: str, name: str) -> list[int]:
        worker = self.worker(kind)
        return [row["step"] for row in self.events_told if row["worker"] == worker and row["name"] == name]


@cache
def read_diary(folder: Path, kind: str) -> dict[str, Any]:
    return dict(json.loads((folder / f"{kind}.json").read_text()))


@pytest.fixture(scope="module")
def unwatched() -> Path:
    ended, folder = recorded([sys.executable, script("kinds.py"), ".", *KINDS])
    assert (ended.status, ended.err) == (0, "")
    return folder


@pytest.fixture(scope="module")
def watch() -> Watched:
    runs, folders = [], []
    for kinds in GROUPS:
        ended, folder = recorded_run(CAPTURE, script("kinds.py"), ".", *kinds)
        assert ended.status == 0, ended.err
        assert "Traceback" not in ended.err
        runs.append(ended.run)
        folders.append(folder)
    return Watched(runs, folders)


def test_all_kinds_are_listed(watch: Watched) -> None:
    done = finish(
        [sys.executable, "-c", "import kinds; print(*kinds.KINDS)"],
        Path(script(".")),
        env=environment(),
    )
    assert sorted(done.out.split()) == sorted(KINDS)


CHECKED = (
    "accumulation",
    "scaled_bfloat16",
    "loading",
    "threaded",
    "sparse",
    "tied",
    "checkpointed",
    "nested",
    "fast_path",
    "modes",
    "counted",
    "collected",
)
"""Kinds that differ in how a step is recorded for its copy."""
UNSTEADY = ("duet",)
"""Two threads that train at once: of two runs beside a copy one ended with a segmentation fault, of unknown cause."""
PROBE = "model_inputs"
"""The probe that costs least: the training is the same for all, as they are made in a process of their own."""
MODE_LEFT = frozenset({"fast_path", "within_backward"})
"""Kinds that end while Leadline's function mode is inactive but still on the stack until the next forward pass."""


@pytest.mark.parametrize("kind", DIARIES)
def test_weights_are_bit_identical_and_the_process_state_is_unchanged(
    watch: Watched, unwatched: Path, kind: str
) -> None:
    without, found = read_diary(unwatched, kind), watch.diary(kind)
    for what in ("digest", "facts"):
        assert found[what] == without[what]
    assert found["settings"] == without["settings"] | left_by(kind)
    assert found["losses"] == without["losses"]


def left_by(kind: str) -> dict[str, int]:
    """Return the settings that a watched process of this kind has left."""
    return {"modes": 1} if kind in MODE_LEFT else {}


@pytest.fixture(scope="module")
def checked() -> tuple[Path, dict[str, list[CheckResult]]]:
    """Return the folder of the diaries of trainings that were checked in one run, and the results by worker."""
    ended, folder = recorded_run(("--check", "--no-default-rules"), script("kinds.py"), ".", *CHECKED)
    assert ended.status == 0, ended.err
    results = read_checks(ended.run.path)
    assert len(results) == len(CHECKED)
    return folder, results


@pytest.mark.parametrize("kind", CHECKED)
def test_a_training_that_is_checked_has_the_same_weights_and_process_state(
    checked: tuple[Path, dict[str, list[CheckResult]]], unwatched: Path, kind: str
) -> None:
    folder, results = checked
    without, found = read_diary(unwatched, kind), read_diary(folder, kind)
    for what in ("digest", "facts", "losses"):
        assert found[what] == without[what]
    assert found["settings"] == without["settings"] | left_by(kind)
    assert {result.step for result in results[f"rank0-{found['pid']}"]} == {2}


@pytest.fixture(scope="module")
def copied() -> tuple[list[Path], dict[str, list[CheckResult]]]:
    """Return the folders of the diaries of all kinds, of which a copy was made for one probe, and the results."""
    folders, results = [], {}
    for kinds in GROUPS:
        those = [kind for kind in kinds if kind not in UNSTEADY]
        ended, folder = recorded_run(("--no-default-rules", "--rule", PROBE), script("kinds.py"), ".", *those)
        assert ended.status == 0, ended.err
        folders.append(folder)
        results |= read_checks(ended.run.path)
    return folders, results


@pytest.mark.parametrize("kind", [diary for diary in DIARIES if diary not in UNSTEADY])
def test_a_training_of_any_kind_has_the_same_weights_beside_its_copy(
    copied: tuple[list[Path], dict[str, list[CheckResult]]], unwatched: Path, kind: str
) -> None:
    folders, results = copied
    folder = next(folder for folder in folders if (folder / f"{kind}.json").exists())
    without, found = read_diary(unwatched, kind), read_diary(folder, kind)
    for what in ("digest", "facts", "losses"):
        assert found[what] == without[what]
    # with fewer captures nothing may be left
    assert found["settings"] in (without["settings"], without["settings"] | left_by(kind))
    assert [result.probe for result in results[f"rank0-{found['pid']}"]] == [PROBE]


@pytest.mark.parametrize("kind", DIARIES)
def test_capture_stays_enabled_and_no_data_is_dropped(watch: Watched, kind: str) -> None:
    document = watch.document(kind)
    assert document.state == "ended"
    assert (document.off, document.lost) == (None, None)


@pytest.mark.parametrize("kind", TOLD)
def test_the_steps_are_counted(watch: Watched, kind: str) -> None:
    assert watch.document(kind).steps["train"] == watch.diary(kind)["steps"]


@pytest.mark.parametrize("kind", TOLD)
def test_names_are_those_of_the_model(watch: Watched, kind: str) -> None:
    diary = watch.diary(kind)
    gradients = {f"gradient/{name}" for name in diary["gradients"]}
    assert watch.names(kind) == {*diary["losses"], *diary["weights"], *gradients}


@pytest.mark.parametrize("kind", TOLD)
def test_losses_equal_those_of_the_script(watch: Watched, kind: str) -> None:
    diary = watch.diary(kind)
    for name, steps in diary["losses"].items():
        captured = watch.steps(kind, name, "value")
        expected = {int(step): np.mean(values) for step, values in steps.items()}
        untold = {OVERFLOW_STEP} if kind == "raising" else set()
        assert captured.keys() - untold == expected.keys()
        for step, value in expected.items():
            assert captured[step] == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("kind", TOLD)
def test_stored_weights_and_gradients_equal_those_used_by_the_optimizer(watch: Watched, kind: str) -> None:
    held = watch.stored(kind)
    for name, step, expected in captures(watch.diary(kind)):
        if kind == "sparse" and name == "gradient/0.weight":
            continue
        stored = held[f"train/{step}/{name}"]
        assert stored.dtype == TYPES.get(kind, torch.float32)
        plain = torch.view_as_real(stored) if stored.is_complex() else stored
        np.testing.assert_array_equal(plain.double().reshape(-1), expected, err_msg=f"{name} at {step}")


@pytest.mark.parametrize("kind", TOLD)
def test_tensors_are_captured_at_exactly_the_expected_steps(watch: Watched, kind: str) -> None:
    expected: dict[str, list[int]] = {}
    for name, step, _ in captures(watch.diary(kind)):
        expected.setdefault(name, []).append(step)
    untold = {OVERFLOW_STEP} if kind == "raising" else set()
    untold |= {watch.diary(kind)["steps"]}  # the last step of a second optimizer belongs to a step that never ended
    for name, steps in expected.items():
        found = set(watch.steps(kind, name, "nonfinite_count"))
        assert found - untold <= set(steps) <= found, name


@pytest.mark.parametrize("kind", TOLD)
def test_statistics_equal_those_of_the_tensors(watch: Watched, kind: str) -> None:
    for name, step, expected in captures(watch.diary(kind)):
        if TYPES.get(kind) == torch.complex64:
            expected = np.abs(expected.view(np.complex128))
        finite = expected[np.isfinite(expected)]
        bad = expected.size - finite.size
        assert statistic(watch, kind, name, "nonfinite_count", step) == bad
        if bad or not expected.size:
            continue
        assert statistic(watch, kind, name, "l2", step) == pytest.approx(np.linalg.norm(expected), rel=1e-5)
        rounding = 1e-6 * np.abs(expected).max()
        assert statistic(watch, kind, name, "mean", step) == pytest.approx(expected.mean(), abs=rounding)
        assert statistic(watch, kind, name, "max", step) == pytest.approx(expected.max(), rel=1e-6)
        assert statistic(watch, kind, name, "zero_ratio", step) == pytest.approx(np.mean(expected == 0))


def statistic(watch: Watched, kind: str, name: str, statistic: str, step: int) -> float:
    return watch.steps(kind, name, statistic)[step]


def captures(diary: dict[str, Any]) -> list[tuple[str, int, np.ndarray[Any, Any]]]:
    """Return every tensor at every step, as recorded by the script."""
    books = {**diary["weights"], **{f"gradient/{name}": steps for name, steps in diary["gradients"].items()}}
    return [(name, int(step), np.array(values)) for name, steps in books.items() for step, values in steps.items()]


@pytest.mark.parametrize("kind", SCALED)
def test_a_skipped_step_is_marked_and_its_gradients_are_captured(watch: Watched, kind: str) -> None:
    assert watch.events(kind, "step_skipped") == [OVERFLOW_STEP]
    assert statistic(watch, kind, "gradient/2.weight", "nonfinite_count", OVERFLOW_STEP) > 0
    updates = watch.steps(kind, "2.weight", "update_ratio")
    assert sorted(updates) == [step for step in range(12) if step != OVERFLOW_STEP]


def test_no_rule_fires_even_for_steps_skipped_by_the_scaler(watch: Watched) -> None:
    """Except the advice on models that indeed have linear layers in sequence."""
    assert [finding for finding in watch.findings if finding["rule"] != "consecutive_linear"] == []


def test_processes_that_do_not_train_write_nothing(watch: Watched) -> None:
    """Neither the parent process of all kinds nor data loader workers write a stream."""
    workers = {watch.worker(kind) for kind in DIARIES}
    assert set(watch.documents) == workers
    assert {path.name for run in watch.runs for path in Path(run.path, "series").iterdir()} == workers


def test_micro_batches_are_counted(watch: Watched) -> None:
    assert set(watch.steps("accumulation", "loss", "count").values()) == {4.0}
    assert set(watch.steps("together", "loss", "count").values()) == {2.0}


def test_the_step_clock_changes_its_owner_when_a_model_is_rebuilt(watch: Watched) -> None:
    assert watch.events("rebuilt", "clock_owner") == watch.events("collected", "clock_owner") == [4, 8]
    assert watch.events("phases", "clock_owner") == [4]
    assert watch.events("swept", "clock_owner") == [12, 24]


def test_a_sparse_gradient_is_reported_as_not_stored(watch: Watched) -> None:
    (note,) = watch.document("sparse").notes
    assert note.startswith("gradient/0.weight is not stored: only dense tensors")


def test_models_are_still_listed_after_they_were_deleted(watch: Watched) -> None:
    documents = {kind: watch.document(kind) for kind in DIARIES}
    nested, tied = documents["nested"], documents["tied"]
    assert (nested.models, nested.optimizers) == ((WatchedModel("Sequential", 4, 67, 67),), ("Careful",))
    assert (tied.models, tied.optimizers) == ((WatchedModel("Tied", 1, 60, 60),), ("AdamW",))
    assert sorted(model.name for model in documents["adversarial"].models) == ["Discriminator", "Generator"]


def test_runs_can_be_verified(watch: Watched) -> None:
    assert [Run(run.path).verify() for run in watch.runs] == [[]] * len(GROUPS)


def test_modules_are_captured_outside_of_function_transforms(watch: Watched) -> None:
    """Passes within ``jit.trace``, ``vmap`` and similar are not captured; the forward pass of the step is."""
    for kind in ("scripted", "transformed"):
        rows = [row for row in watch.series if row["worker"] == watch.worker(kind) and row["name"] == "1_output_0"]
        assert {row["step"] for row in rows} == set(range(12)), kind


def test_wrappers_do_not_show_in_names(watch: Watched) -> None:
    models = {kind: watch.document(kind).models[0].name for kind in ("parallel", "averaged", "reshaped_names")}
    assert set(models.values()) == {"Sequential"}
