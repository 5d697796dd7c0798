"""smdebug's names of Keras' tensors, as its own trials have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.compat.smdebug import create_trial
from leadline.compat.smdebug.keras_names import smdebug_name
from leadline.compat.smdebug.trial_naming import KERAS, XGBOOST, name_as_hooks_do, naming_of
from leadline.records.series import TensorInfo
from leadline.store import layout
from leadline.store.documents import write_document
from leadline.testing.runs import Capture, RunWriter


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sequential/dense/kernel", "dense/weights/dense/kernel:0"),
        ("functional/block/dense/bias", "dense/weights/dense/bias:0"),
        ("gradient/sequential/dense/kernel", "gradients/dense/kernelGrad"),
        ("sequential/dense_input_0", "dense/inputs"),
        ("sequential/dense_output_1", "dense/outputs_1"),
        ("sequential_output_0", "sequential_output_0"),
        ("metrics/accuracy", "accuracy"),
        ("loss", "loss"),
        ("scalar/epoch", "scalar/epoch"),
        ("adam/sequential_dense_bias_momentum", "adam/sequential_dense_bias_momentum"),
    ],
)
def test_names(name: str, expected: str) -> None:
    assert smdebug_name(name) == expected


def test_without_a_hook_the_framework_tells_the_names() -> None:
    assert naming_of(["tensorflow 2.21.0"]) == KERAS
    assert naming_of(["", "torch 2.13.0, xgboost 3.1.0"]) == XGBOOST
    assert naming_of(["torch 2.13.0", "keras 3.12.0"]) is None


def test_collections_have_what_smdebugs_have(tmp_path: Path) -> None:
    run = tmp_path / "run"
    bias, moment = "sequential/dense/bias", "adam/sequential_dense_bias_momentum"
    infos = {
        name: TensorInfo(name, (collection,), (), "float64")
        for name, collection in ((bias, "biases"), (moment, "optimizer_variables"), ("metrics/loss", "metrics"))
    }
    values = {name: {"value": 1.0} for name in (bias, moment, "loss", "metrics/loss", "metrics/accuracy")}
    writer = RunWriter(run).write_all([Capture(0, values, infos=infos)])
    writer.end()
    writer.write_worker("rank0-1", framework="tensorflow 2.21.0", state="ended")
    name_as_hooks_do(str(run))
    without_hook = create_trial(run)
    assert without_hook.tensor_names() == ["accuracy", moment, "dense/weights/dense/bias:0", "loss"]
    patterns = {"biases": "^(?!gradient).*bias", "losses": "loss", "mine": "momentum"}
    entries = {name: {"name": name, "include_regex": [pattern]} for name, pattern in patterns.items()}
    write_document(str(run / layout.HOOK_COLLECTIONS), {"names": KERAS, "collections": entries})
    name_as_hooks_do(str(run))  # the hook came first
    trial = create_trial(run)
    found = {name: trial.tensor_names(collection=name) for name in (*entries, "optimizer_variables")}
    assert found == {
        "biases": ["dense/weights/dense/bias:0"],
        "losses": ["loss"],
        "mine": [moment],
        "optimizer_variables": [moment],
    }
    assert trial.collection("biases").tensor_names == {"dense/weights/dense/bias:0"}
