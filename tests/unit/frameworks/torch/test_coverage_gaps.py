"""Coverage gaps of a training, found by traces that PyTorch and other libraries leave on live objects."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch import nn

from leadline.frameworks.torch.diagnose.inventory import CoverageGap, find_coverage_gaps, inventory, no_step_gap


@pytest.fixture(autouse=True)
def earlier_gaps() -> set[CoverageGap]:
    """Gaps due to objects that earlier tests left alive."""
    return set(find_coverage_gaps([]))


def new_gaps(earlier_gaps: set[CoverageGap], stepped: list[torch.optim.Optimizer]) -> dict[str, str]:
    return {gap.what: gap.why for gap in find_coverage_gaps(stepped) if gap not in earlier_gaps}


def stepped(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    return optimizer


def test_a_plain_training_has_no_gaps(earlier_gaps: set[CoverageGap]) -> None:
    optimizer = stepped(nn.Linear(3, 2))
    assert new_gaps(earlier_gaps, [optimizer]) == {}


def test_steps_wrapped_by_schedulers_are_observed(earlier_gaps: set[CoverageGap]) -> None:
    optimizer = stepped(nn.Linear(3, 2))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    assert new_gaps(earlier_gaps, [optimizer]) == {}
    del schedule


@pytest.mark.parametrize("place", ["instance", "class"])
def test_a_replaced_step_method_is_a_gap(earlier_gaps: set[CoverageGap], place: str) -> None:
    class Own(torch.optim.SGD):
        pass

    optimizer = Own(nn.Linear(3, 2).parameters(), lr=0.1)
    if place == "instance":
        optimizer.step = lambda closure=None: None
    else:
        Own.step = lambda self, closure=None: None
    assert "was replaced" in new_gaps(earlier_gaps, [])["Own"]
    assert place in new_gaps(earlier_gaps, [])["Own"]


def test_an_optimizer_that_has_not_stepped_is_a_gap(earlier_gaps: set[CoverageGap]) -> None:
    class Waiting(torch.optim.SGD):
        pass

    optimizer = Waiting(nn.Linear(3, 2).parameters(), lr=0.1)
    assert new_gaps(earlier_gaps, []) == {"Waiting": "it exists, but has not stepped so far"}
    assert new_gaps(earlier_gaps, [optimizer]) == {}


def test_both_ways_of_compiling_modules_are_gaps(earlier_gaps: set[CoverageGap]) -> None:
    class One(nn.Linear):
        pass

    class Two(nn.Linear):
        pass

    one, two = torch.compile(One(3, 2), backend="eager"), Two(3, 2)
    two.compile(backend="eager")
    (what,) = [gap for gap in new_gaps(earlier_gaps, []) if gap.startswith("torch.compile")]
    assert {"One", "Two"} <= set(what.removeprefix("torch.compile of ").split(", "))
    del one


def test_graphed_callables_and_capturable_optimizers_are_gaps(earlier_gaps: set[CoverageGap]) -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)

    def graphed(x: torch.Tensor) -> torch.Tensor:
        return x

    graphed.__module__ = "torch.cuda.graphs"
    model.forward = graphed
    gaps = new_gaps(earlier_gaps, [optimizer])
    assert set(gaps) == {"torch.cuda.make_graphed_callables of Linear", "Adam(capturable=True)"}
    assert all("without Python" in why for why in gaps.values())


def test_flat_parameters_are_a_gap(earlier_gaps: set[CoverageGap]) -> None:
    model = nn.Linear(3, 2)
    model.weight._is_flat_param = True
    optimizer = stepped(model)
    assert set(new_gaps(earlier_gaps, [optimizer])) == {"FullyShardedDataParallel (FSDP1)"}


def test_data_parallel_replicas_are_a_gap(earlier_gaps: set[CoverageGap]) -> None:
    model = nn.DataParallel(nn.Linear(3, 2))
    model.device_ids = [0, 1]
    assert set(new_gaps(earlier_gaps, [])) == {"DataParallel"}
    model.device_ids = [0]
    assert new_gaps(earlier_gaps, []) == {}


@pytest.mark.parametrize(("package", "what"), [("deepspeed", "DeepSpeed"), ("megatron", "Megatron")])
def test_third_party_engines_are_gaps(earlier_gaps: set[CoverageGap], package: str, what: str) -> None:
    module = ModuleType(package)
    kind = type("Engine", (nn.Module,), {"__module__": f"{module.__name__}.runtime.engine"})
    engine = kind()
    assert set(new_gaps(earlier_gaps, [])) == {what}
    del engine


def test_no_optimizer_step_is_a_gap() -> None:
    assert no_step_gap(0).what == "no backward pass, no optimizer step"
    assert no_step_gap(12).what == "12 backward passes and no optimizer step"


def test_the_inventory_counts_elements_and_lists_variables() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    model[0].bias.requires_grad_(False)
    optimizer = torch.optim.Adam([model[0].weight])
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    description = inventory([optimizer])
    (entry,) = description["models"]
    assert (entry["name"], entry["parameters"], entry["trainable"], entry["tensors"]) == (
        "Sequential",
        8,
        6,
        2,
    )
    assert description["optimizers"][0]["variables"] == ["exp_avg", "exp_avg_sq", "step"]
    assert {"linear", "relu", "sequential"} <= set(description["module_kinds"])
