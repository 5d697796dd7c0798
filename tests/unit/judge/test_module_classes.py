"""Modules that are named by an index have their class in the messages of findings."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.judge.evaluator import Evaluator
from leadline.judge.module_classes import ModuleClasses
from leadline.records.series import TensorInfo
from leadline.rules.tensors.exploding_tensor import ExplodingTensor
from leadline.testing.runs import START_NS, Capture, RunWriter
from leadline.testing.windows import points

INFOS = {
    info.name: info
    for info in (
        TensorInfo("0_input_0", ("layers", "linear_input"), (4, 4)),
        TensorInfo("features.3_output_0", ("layers", "conv2d_output"), (4, 4)),
        TensorInfo("head_output_0", ("layers", "linear_output"), (4, 4)),
        TensorInfo("gradient/0.weight", ("gradients",), (4, 4)),
    )
}
LAYERS = Capture(0, {name: {"abs_mean": 1.0} for name in list(INFOS)[:3]}, infos=INFOS)


@pytest.mark.parametrize(
    ("message", "tensors", "named"),
    [
        ("0.weight: below 1e-7, and 2 more", ("gradient/0.weight",), "0.weight (linear): below 1e-7, and 2 more"),
        ("made by module 0: 4 in 0_output_0", ("0_output_0",), "made by module 0 (linear): 4 in 0_output_0"),
        ("in features.3.bias or 0.3.bias", ("features.3.bias",), "in features.3.bias (conv2d) or 0.3.bias"),
        ("layer features.3 has none", ("features.3.weight",), "layer features.3 (conv2d) has none"),
        ("0.weight: a, 0.bias: b", ("0.weight", "0.bias"), "0.weight (linear): a, 0.bias: b"),
        ("10.weight is 0, at 0.5", ("0.weight",), "10.weight is 0, at 0.5"),
        ("head.weight and 7.weight are 0", ("head.weight", "7.weight"), "head.weight and 7.weight are 0"),
    ],
)
def test_the_class_follows_the_first_mention(message: str, tensors: tuple[str, ...], named: str) -> None:
    classes = ModuleClasses()
    for point in points([LAYERS], shapes={}):
        classes.update(point)
    assert classes.name(message, tensors) == named
    assert ModuleClasses().name(message, tensors) == message


def test_findings_have_the_class(tmp_path: Path) -> None:
    broken = Capture(1, {"gradient/0.weight": {"nonfinite_count": 1.0, "nan_count": 1.0}}, infos=INFOS)
    path = RunWriter(tmp_path / "run").write_all([LAYERS, broken]).end().path
    progress = Evaluator(path, [("it", ExplodingTensor())], started_ns=START_NS).advance(is_over=True)
    (finding,) = [event for _, event in progress.events if event["event"] == "opened"]
    assert finding["message"] == "0.weight (linear): 1 of 16 gradients is NaN"
    assert finding["tensors"] == ("gradient/0.weight",)
