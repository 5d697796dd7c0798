"""A full disk, an exceeded disk limit, a deleted run: training continues, and dropped data is reported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from launching import Ended, bare, losses, only_run, script, show, started, wait_for, watched

RAW = [
    part
    for collection in ("weights", "biases", "gradients")
    for part in ("--capture", f"{collection}:every=1,raw=true")
]
STEPS = ("--pause-at", "50")


@pytest.fixture(scope="module")
def unwatched(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return bare("healthy.py", folder=tmp_path_factory.mktemp("bare"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 64 MB as the runs directory."""
    place = tmp_path / "runs"
    place.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mount.returncode:
        pytest.skip(f"a disk of its own cannot be mounted here: {mount.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> None:
    """Fill the disk."""
    with open(place / "filler", "wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def test_a_disk_that_fills_up_does_not_affect_the_training(tmp_path: Path, small_disk: Path, unwatched: Ended) -> None:
    with started(RAW, script("healthy.py"), *STEPS, folder=tmp_path) as running:
        wait_for((tmp_path / "paused").exists, "the pause")
        wait_for(lambda: running.flushed_steps() == 50, "the report of the last step before the pause")
        wait_for(lambda: running.has_recorded(50, "0.weight"), "the flush of the last step before the pause")
        wait_for(lambda: list(small_disk.glob("*/rules/summary.json")), "the judge")  # it cannot start on a full disk
        fill(small_disk)
        (tmp_path / "go").touch()
        ended = running.wait()
    assert (ended.status, ended.out) == (0, unwatched.out)
    assert any(": No space left on device" in line and "since step" in line for line in ended.said), ended.err
    assert any(line.startswith("leadline  incomplete data:") for line in ended.said)
    assert "Traceback" not in ended.err

    (small_disk / "filler").unlink()
    run = only_run(small_disk)
    manifest = json.loads(Path(run.path, "manifest.json").read_text())
    (lost,) = [item for item in manifest["lost"] if "worker" in item]
    assert lost["reason"] == "No space left on device"
    assert lost["rows"] + lost["tensors"] > 0
    assert 0 <= lost["since_step"] < 300
    said = show(run.path)
    assert said["status"] == "Completed"
    assert said["lost"] == [{key: lost[key] for key in said["lost"][0]}]
    assert run.verify() == []
    assert set(range(50)) <= set(run.tensor("0.weight").steps())
    assert [step for step in losses(run) if step < 50] == list(range(50))


@pytest.mark.slow
def test_a_disk_limit_that_is_exceeded(tmp_path: Path, small_disk: Path) -> None:
    """A run uses at most a tenth of the free space."""
    ended = watched(RAW, script("healthy.py"), "--width", "2048", "--steps", "60", folder=tmp_path)
    assert ended.status == 0
    assert ended.out == bare("healthy.py", "--width", "2048", "--steps", "60", folder=tmp_path).out
    run = only_run(small_disk)
    (worker,) = run.worker_documents().values()
    assert "disk limit" in worker.lost.reason
    assert worker.lost.tensors > 0
    assert sum(path.stat().st_size for path in Path(run.path, "tensors").rglob("*.safetensors")) < 6.8e6
    assert any("disk limit" in line and "incomplete data:" in line for line in ended.said)
    assert run.verify() == []


@pytest.fixture(scope="module")
def deleted(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Run a training whose run directory is deleted half-way; return its end."""
    folder = tmp_path_factory.mktemp("deleted")
    with started(RAW, script("healthy.py"), *STEPS, folder=folder) as running:
        wait_for((folder / "paused").exists, "the pause")
        shutil.rmtree(only_run(folder / "runs").path)
        (folder / "go").touch()
        return running.wait()


def test_a_deleted_run_does_not_affect_the_training(deleted: Ended, unwatched: Ended) -> None:
    assert (deleted.status, deleted.out) == (0, unwatched.out)
    assert "Traceback" not in deleted.err


def test_a_deleted_run_stays_deleted_and_is_reported(deleted: Ended) -> None:
    assert list(deleted.root.rglob("*")) == []
    assert any("the run directory was removed: nothing of this run is left" in line for line in deleted.said)


def test_a_directory_that_cannot_be_written_is_refused_before_the_training(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    ended = watched((), script("healthy.py"), folder=tmp_path)
    assert (ended.status, ended.out) == (2, "")
    assert len(ended.err.splitlines()) == 1
    assert os.listdir(tmp_path) == ["runs"]
