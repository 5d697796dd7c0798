"""Recompilations of torch.compile: counts, and what did not hold, beside the calls of a backend."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from leadline.frameworks.torch.diagnose.recompilations import Recompilations


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = 0

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values * self.factor


def counted(factors: list[int]) -> tuple[dict[str, float], int]:
    """Return what is found after calls with these factors, and how often the backend was called."""
    torch._dynamo.reset()
    torch._dynamo.utils.clear_compilation_metrics()  # of what other tests of this process have compiled
    calls = 0

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        nonlocal calls
        calls += 1
        return graph

    model = Scaled()
    compiled = torch.compile(model, backend=backend)
    seen = Recompilations()
    for factor in factors:
        model.factor = factor
        compiled(torch.ones(3))
        seen.results()
    found = seen.results()
    total = found.pop("process/recompilations")
    assert total == sum(value for name, value in found.items() if name.endswith("/recompilations"))
    return found, calls


def test_each_compilation_after_the_first_is_counted_with_what_did_not_hold() -> None:
    found, calls = counted([1, 1, 2, 3, 3, 1])
    (name,) = found
    assert name.startswith("forward (test_recompilations.py:")
    assert name.endswith("): self.factor == …/recompilations")
    assert found[name] == calls - 1 == 2
    assert counted([1, 1, 1]) == ({}, 1)


def test_the_limit_is_told_when_it_was_reached() -> None:
    found, calls = counted(list(range(20)))
    limit = torch._dynamo.config.recompile_limit
    assert sorted(found.values()) == [calls - 1, limit]
    assert calls == limit
    assert [name for name in found if name.endswith("/recompile_limit")]


def test_what_other_trainings_of_the_process_have_compiled_is_left_out() -> None:
    _, calls = counted([1, 2, 3])
    assert calls == 3
    assert Recompilations().results() == {"process/recompilations": -1.0}


def test_without_dynamo_nothing_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    assert Recompilations().results() == {"process/recompilations": -1.0}
    utils = SimpleNamespace(get_compilation_metrics=list)
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", utils)
    assert Recompilations().results() == {"process/recompilations": -1.0}
