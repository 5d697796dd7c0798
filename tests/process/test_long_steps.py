"""What a script does again and again within one step takes no memory of ours that grows with it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from launching import MXNET, bare, environment, finish, needs_mxnet, script, watched

EVERYDAY = ("no_grad", "dropout")
OTHERS = (
    "rollouts",
    "micro_batches",
    "update_bn",
    "inference",
    "discarded",
    "small_losses",
    "traced",
    "recurrent",
)
MOST = 192 << 20
PASSES = int(os.environ.get("LEADLINE_PASSES", "60"))
"""Of a step, 2,000 by the variable: what grows does so from the first pass on, by 8 MB each."""


def told(folder: Path, kind: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / f"{kind}.json").read_text())
    return document


@pytest.mark.parametrize("kinds", [EVERYDAY, pytest.param(OTHERS, marks=pytest.mark.slow)], ids=["everyday", "others"])
def test_the_memory_of_a_step_does_not_grow_with_its_passes(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """Each pass has activations of 8 MB."""
    folders = tmp_path / "bare", tmp_path / "watched"
    for folder in folders:
        folder.mkdir()
    unwatched = bare("long_steps.py", str(folders[0]), str(PASSES), *kinds, folder=tmp_path)
    assert unwatched.status == 0, unwatched.err
    job = (sys.executable, script("long_steps.py"), str(folders[1]), str(PASSES), *kinds)
    ended = watched(("--capture", "layers:every=1"), *job, folder=tmp_path)
    assert ended.status == 0, ended.err
    workers = ended.run.worker_documents().values()
    assert len(workers) == len(kinds)
    assert all(worker.off is None and worker.lost is None for worker in workers)
    grown = {kind: (told(folders[0], kind)["grown"], told(folders[1], kind)["grown"]) for kind in kinds}
    assert {kind: sizes for kind, sizes in grown.items() if sizes[1] > sizes[0] + MOST} == {}
    assert {kind: told(folders[1], kind)["sum"] for kind in kinds} == {
        kind: told(folders[0], kind)["sum"] for kind in kinds
    }


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["tensorflow", "jax", pytest.param("mxnet", marks=needs_mxnet)])
def test_calls_outside_of_compiled_functions_take_no_memory_either(framework: str, tmp_path: Path) -> None:
    python = Path(MXNET).parents[2] / framework / "bin" / "python"
    job = (str(python), script("long_steps_elsewhere.py"), framework, str(PASSES))
    unwatched = finish(list(job), tmp_path, env=environment())
    ended = watched(("--capture", "layers:every=1"), *job, folder=tmp_path)
    assert (unwatched.status, ended.status) == (0, 0), unwatched.err + ended.err
    (worker,) = ended.run.worker_documents().values()
    assert (worker.off, worker.lost) == (None, None)
    grown = [int(each.out.rpartition("grown")[2]) for each in (unwatched, ended)]
    assert grown[1] <= grown[0] + MOST
