"""Advice names the functions of the framework that trains."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import leadline.rules
from leadline.analysis import loader_advice, suggestions
from leadline.analysis.advice import FRAMEWORKS, Advice, frameworks_of, in_terms_of
from leadline.analysis.advice_terms import DEFAULT, TERMS
from leadline.errors import UnknownNameError
from leadline.judge.evaluator import Evaluator
from leadline.records.loss_facts import Activation, LossKind
from leadline.records.series import TensorInfo
from leadline.rules.losses.loss_input import LossInput
from leadline.rules.rule import Rule
from leadline.rules.tensors.exploding_tensor import ExplodingTensor
from leadline.testing.runs import Capture, RunWriter

_CODE = re.compile(r"\b\w*(?:_|[a-z][A-Z])\w*|\w+(?=\()|\b\w+\.\w+|\w+(?==)")
"""Names of functions, classes and parameters."""
_LIBRARIES = re.compile(r"\b(?:torch|PyTorch|keras|Keras|tf|optax|gluon|mxnet)\b|GradScaler|no_grad|requires_grad")
_COMMON = {"log_softmax", "max_depth", "min_child_weight", "min_gain_to_split", "float"}
"""Functions that all have under this name, and parameters of trees, whose advice is given for trees alone."""
_OF_LIBRARY = {
    "torch": {"torch", "PyTorch", "GradScaler", "no_grad", "requires_grad"},
    "keras": {"keras", "Keras"},
    "tensorflow": {"keras", "Keras", "tf"},
    "jax": {"optax"},
    "mxnet": {"gluon", "mxnet"},
}


@pytest.mark.parametrize(
    ("label", "frameworks"),
    [
        ("tensorflow 2.21.0 (Keras 3.15.1)", ("keras", "tensorflow")),
        ("tensorflow 2.21.0", ("tensorflow", "keras")),
        ("keras 3.15.1 (PyTorch)", ("keras", "torch")),
        ("torch 2.13.0+cpu, keras 3.15.1 (PyTorch)", ("keras", "torch")),
        ("jax 0.7.0", ("jax",)),
        ("jax 0.7.0 (Keras 3.15.1)", ("keras", "jax")),
        ("mxnet 1.9.1", ("mxnet",)),
        ("lightgbm 4.6.0", ("lightgbm",)),
        ("torch 2.13.0+cpu", ("torch",)),
        ("another 1.0", ()),
        ("", ("torch",)),
    ],
)
def test_the_frameworks_of_a_worker(label: str, frameworks: tuple[str, ...]) -> None:
    assert frameworks_of(label) == frameworks


def test_advice_is_in_terms_of_pytorch_until_the_framework_is_known() -> None:
    advice = Advice("clip gradients ({clip_norm_to} {limit}); usually the rate is too high", "limit").given(limit=1.5)
    assert advice == "clip gradients (clip_grad_norm_ to 1.5); usually the rate is too high"
    assert advice.in_terms_of(("keras", "torch")) == "clip gradients (clipnorm of 1.5); usually the rate is too high"
    assert advice.in_terms_of(()) == "clip gradients (their norm to 1.5); usually the rate is too high"
    assert in_terms_of({"a": [advice, 1]}, ("jax",)) == {"a": [advice.in_terms_of(("jax",)), 1]}


def test_a_copy_of_advice_knows_its_terms() -> None:
    advice = Advice("{clip_norm_to} {limit}", "limit").given(limit=1)
    for same in (copy.deepcopy(advice), pickle.loads(pickle.dumps(advice))):
        assert (same, same.in_terms_of(("keras",))) == (advice, "clipnorm of 1")


def test_an_unknown_term_or_value_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="clip_norm_to"):
        Advice("clip gradients ({clip_norm_too} 1.0)")
    with pytest.raises(UnknownNameError, match="limit"):
        Advice("{clip_norm_to} {limit}", "limit").given(limits=1)


def test_terms_have_columns_of_frameworks_and_words_for_every_other_one() -> None:
    for term, columns in TERMS.items():
        assert columns.keys() <= {DEFAULT, *FRAMEWORKS}, term
        assert columns[DEFAULT], term


def test_every_term_is_used() -> None:
    used = {name for advice in _all_advice() for name in re.findall(r"\{(\w+)\}", advice.template)}
    assert TERMS.keys() - used == set()


@pytest.mark.parametrize("framework", [*FRAMEWORKS, "another"])
def test_no_advice_names_anything_of_another_framework(framework: str) -> None:
    own = {name for columns in TERMS.values() for name in _names(columns.get(framework, columns[DEFAULT]))}
    foreign = {name for columns in TERMS.values() for text in columns.values() for name in _names(text)} - own - _COMMON
    found = {}
    for advice in _all_advice():
        text = advice.in_terms_of((framework,)).replace("torch.utils.data", "")
        libraries = set(_LIBRARIES.findall(text)) - _OF_LIBRARY.get(framework, set())
        names = libraries | (_names(text) & foreign)
        if names:
            found[text] = names
    assert found == {}


def _names(text: str) -> set[str]:
    return set(_CODE.findall(text))


def _all_advice() -> list[Advice]:
    modules = [
        importlib.import_module(info.name) for info in pkgutil.walk_packages(leadline.rules.__path__, "leadline.rules.")
    ]
    modules += [suggestions, loader_advice]
    found = [advice for module in modules for advice in _advice_in(vars(module).values())]
    assert len(found) > 100
    return found


def _advice_in(values: Any) -> Iterator[Advice]:
    for value in values:
        if isinstance(value, Advice):
            yield value
        elif isinstance(value, dict):
            yield from _advice_in(value.values())
        elif isinstance(value, type) and issubclass(value, Rule):
            yield from _advice_in(vars(value).values())


@pytest.mark.parametrize(
    ("framework", "named"),
    [("keras 3.15.1 (PyTorch)", "BinaryCrossentropy(from_logits=True)"), ("torch 2.13.0", "BCEWithLogitsLoss")],
)
def test_a_finding_is_recorded_in_the_terms_of_the_framework(tmp_path: Path, framework: str, named: str) -> None:
    facts = {"loss_kind": float(LossKind.BINARY_CROSS_ENTROPY), "activation": float(Activation.NONE)}
    infos = {f"loss/{fact}": TensorInfo(f"loss/{fact}", ("checks",), ()) for fact in facts}
    captured = {f"loss/{fact}": {"value": number} for fact, number in facts.items()}
    assert named in _recorded(tmp_path, framework, Capture(0, captured, infos=infos), "loss_input", LossInput())


@pytest.mark.parametrize(
    ("framework", "scaler"),
    [("jax 0.7.0", "bfloat16 or a loss scale"), ("torch 2.13.0", "GradScaler"), ("mxnet 1.9.1", "amp.init_trainer")],
)
def test_a_finding_in_jax_names_no_class_of_pytorch(tmp_path: Path, framework: str, scaler: str) -> None:
    info = TensorInfo("gradient/w", ("gradients",), (4,))
    capture = Capture(0, {"gradient/w": {"nonfinite_count": 1.0, "nan_count": 1.0}}, infos={"gradient/w": info})
    suggestion = _recorded(tmp_path, framework, capture, "exploding_tensor", ExplodingTensor())
    assert scaler in suggestion
    assert ("GradScaler" in suggestion) == framework.startswith("torch")


def _recorded(folder: Path, framework: str, capture: Capture, name: str, rule: Rule) -> str:
    writer = RunWriter(folder / "run").write_all([capture])
    writer.write_worker("rank0-1", framework=framework)
    evaluator = Evaluator(writer.path, [(name, rule)], started_ns=0, is_over=True)
    (event,) = [event for _, event in evaluator.advance(is_over=True).events]
    return str(event["suggestion"])
