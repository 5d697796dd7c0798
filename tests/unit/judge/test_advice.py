"""Advice names the functions of the framework that trains."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import leadline.rules
from leadline.judge.advice import in_terms_of, library_of
from leadline.judge.evaluator import Evaluator
from leadline.records.loss_facts import Activation, LossKind
from leadline.records.series import TensorInfo
from leadline.rules.losses.loss_input import LossInput
from leadline.testing.runs import Capture, RunWriter

RULES = Path(inspect.getfile(leadline.rules)).parent
OF_PYTORCH_ALONE = {
    "dataloader",
    "eval_in_train_mode",
    "gpu_memory_increase",
    "load_balancing",
    "missing_zero_grad",
    "replica_divergence",
    "update_limits",
}
"""Rules, and parts of them, that judge what only PyTorch has; only its scaler is told of with a name."""
_NAMES = re.compile(r"\b\w+Loss\b|\w+\.\w+\(|\b\w+_\(|requires_grad|\bno_grad\b|clip_grad_norm_|unsqueeze|DataLoader")


@pytest.mark.parametrize(
    ("frameworks", "library"),
    [
        ("tensorflow 2.21.0 (Keras 3.15.1)", "keras"),
        ("keras 3.15.1 (PyTorch)", "keras"),
        ("torch 2.13.0+cpu, keras 3.15.1 (PyTorch)", "keras"),
        ("jax 0.7.0", "jax"),
        ("mxnet 1.9.1", "mxnet"),
        ("torch 2.13.0+cpu", ""),
        ("", ""),
    ],
)
def test_the_library_of_a_worker(frameworks: str, library: str) -> None:
    assert library_of(frameworks) == library


def test_the_longest_name_is_replaced() -> None:
    advice = "removing the sigmoid behind the last layer, or BCELoss in place of BCEWithLogitsLoss"
    assert in_terms_of("keras", advice) == "removing the sigmoid behind the last layer, or from_logits=False"
    assert in_terms_of("keras", "BCEWithLogitsLoss") == "BinaryCrossentropy(from_logits=True)"
    assert in_terms_of("", advice) == advice
    assert in_terms_of("keras", "MyBCELoss") == "MyBCELoss"


def test_no_advice_on_keras_names_a_loss_or_function_of_pytorch() -> None:
    left = {
        (file.stem, found[0])
        for file in RULES.rglob("*.py")
        if file.stem not in OF_PYTORCH_ALONE
        for text in _texts(file)
        for found in _NAMES.finditer(in_terms_of("keras", text))
        if _is_of_pytorch(found[0])
    }
    assert left == set()


def _texts(file: Path) -> Iterator[str]:
    """Return the texts in a module, without docstrings and what is no sentence."""
    for node in ast.walk(ast.parse(file.read_text())):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and " " in node.value and "\n" not in node.value and not node.value.endswith("."):
            yield node.value


def _is_of_pytorch(name: str) -> bool:
    bare = name.rstrip("(").rpartition(".")[2]
    return any(hasattr(part, bare) for part in (torch.nn, torch.Tensor, torch.nn.Module, torch.nn.utils, torch))


@pytest.mark.parametrize(
    ("framework", "named"),
    [("keras 3.15.1 (PyTorch)", "BinaryCrossentropy(from_logits=True)"), ("torch 2.13.0", "BCEWithLogitsLoss")],
)
def test_a_finding_is_recorded_in_the_terms_of_the_framework(tmp_path: Path, framework: str, named: str) -> None:
    facts = {"loss_kind": float(LossKind.BINARY_CROSS_ENTROPY), "activation": float(Activation.NONE)}
    infos = {f"loss/{fact}": TensorInfo(f"loss/{fact}", ("checks",), ()) for fact in facts}
    captured = {f"loss/{fact}": {"value": number} for fact, number in facts.items()}
    writer = RunWriter(tmp_path / "run").write_all([Capture(0, captured, infos=infos)])
    writer.write_worker("rank0-1", framework=framework)
    evaluator = Evaluator(writer.path, [("loss_input", LossInput())], started_ns=0, is_over=True)
    (event,) = [event for _, event in evaluator.advance(is_over=True).events]
    assert named in event["suggestion"]
