"""What is captured of a validation of Keras on PyTorch is what Keras itself computes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launching import script, watched

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "tensorflow" / "bin" / "python")
EPOCHS, BATCHES = 3, 2


@pytest.mark.slow
def test_validation_of_keras_on_torch_is_that_of_its_history(tmp_path: Path) -> None:
    env = {"KERAS_BACKEND": "torch", "TF_CPP_MIN_LOG_LEVEL": "3"}
    ended = watched((), PYTHON, script("keras_validation.py"), folder=tmp_path, **env)
    assert ended.status == 0, ended.err
    history, run = json.loads(ended.lines[-1]), ended.run
    assert run.steps(mode="eval") == list(range(EPOCHS * BATCHES))
    loss, accuracy = run.tensor("sparse_categorical_crossentropy_output_0"), run.tensor("accuracy")
    for tensor, name in ((loss, "val_loss"), (accuracy, "val_accuracy")):
        values = [float(tensor.value(step, mode="eval")) for step in range(EPOCHS * BATCHES)]
        means = [sum(values[at : at + BATCHES]) / BATCHES for at in range(0, len(values), BATCHES)]
        assert means == pytest.approx(history[name], rel=1e-5)
