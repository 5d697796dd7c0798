"""Facts about loss calls that cannot be found are noted, and everything else is captured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from launching import MXNET, needs_mxnet, script, watched

TENSORFLOW = str(Path(MXNET).parents[2] / "tensorflow" / "bin" / "python")
PYTHONS = {"torch": sys.executable, "tensorflow": TENSORFLOW, "mxnet": MXNET}


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", "tensorflow", pytest.param("mxnet", marks=needs_mxnet)])
def test_all_but_the_facts_is_captured(framework: str, tmp_path: Path) -> None:
    job = (PYTHONS[framework], script("failing_facts.py"), framework)
    ended = watched(("--capture", "gradients:every=1"), *job, folder=tmp_path, TF_CPP_MIN_LOG_LEVEL="3")
    assert ended.status == 0, ended.err
    run = ended.run
    assert run.damage == []
    (worker,) = run.worker_documents().values()
    assert worker.off is None
    (note,) = [note for note in worker.notes if "loss calls" in note]
    assert note.startswith("facts about loss calls are not captured from step 0 on: RuntimeError: no facts (")
    assert run.steps() == [0, 1, 2, 3, 4]
    for collection in ("losses", "gradients"):
        (name, *_) = run.tensor_names(collection=collection)
        assert len(run.tensor(name).steps()) == 5
