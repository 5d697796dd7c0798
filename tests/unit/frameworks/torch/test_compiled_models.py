"""Observation of compiled models from outside."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch import nn

from leadline.frameworks.torch.hooks.compiled_models import CompiledModels


class Record:
    def __init__(self) -> None:
        self.calls: list[tuple[str, nn.Module, Any]] = []

    def enter(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self.calls.append(("enter", module, args))

    def leave(self, module: nn.Module, args: tuple[Any, ...], kwargs: Any, output: Any) -> None:
        self.calls.append(("leave", module, output))


class Double(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_copies_and_pickles_of_an_observed_model_are_not_observed() -> None:
    compiled, record, model = CompiledModels(), Record(), nn.Sequential(nn.Linear(2, 2))
    observed = compiled.observe([model], record.enter, record.leave)
    written = io.BytesIO()
    torch.save(model, written)
    written.seek(0)
    inputs = torch.ones(1, 2)
    for other in (copy.copy(model), copy.deepcopy(model), torch.load(written, weights_only=False)):
        assert torch.equal(other(inputs), nn.functional.linear(inputs, model[0].weight, model[0].bias))
    assert record.calls == []
    output = model(inputs)
    assert [(how, module) for how, module, _ in record.calls] == [("enter", model), ("leave", model)]
    assert record.calls[1][2] is output
    for one in observed:
        one.remove()
    model(inputs)
    assert len(record.calls) == 2
    assert "_compiled_call_impl" not in model.__dict__


def test_an_error_in_the_model_is_its_own() -> None:
    compiled, record, model = CompiledModels(), Record(), Double()
    compiled.observe([model], record.enter, record.leave)
    with pytest.raises(TypeError, match="unsupported operand"):
        model({})
    assert [(how, value) for how, _, value in record.calls] == [("enter", ({},)), ("leave", None)]


def test_only_what_is_called_from_outside_of_compiled_code_is_observed() -> None:
    compiled, record = CompiledModels(), Record()
    part, other = Double(), Double()
    inside, whole = nn.Sequential(Double()), nn.Sequential(part, Double())
    whole[0] = torch.compile(part, backend="eager")
    optimized = torch.compile(inside, backend="eager")
    compiled.add(part, whole[0])
    compiled.add(inside, optimized)
    assert compiled.exist
    assert compiled.are_observable
    compiled.observe([optimized, whole, other], record.enter, record.leave)
    for model in (optimized, whole, other):
        model(torch.ones(2))
    entered = [module for how, module, _ in record.calls if how == "enter"]
    assert entered == [inside, whole, part, other]


def test_nothing_is_observed_in_replicas_of_data_parallel() -> None:
    compiled, record = CompiledModels(), Record()
    assert compiled.observe([nn.DataParallel(Double()), Double()], record.enter, record.leave) == []


def test_a_compiled_function_may_call_any_model() -> None:
    compiled, model = CompiledModels(), Double()
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)])
    compiled.add(optimizer.step, lambda: None)
    compiled.add(model._call_impl, lambda: None)
    compiled.add(model, None)
    assert compiled.are_observable
    compiled.add(model.forward, lambda: None)
    assert compiled.exist
    assert not compiled.are_observable
