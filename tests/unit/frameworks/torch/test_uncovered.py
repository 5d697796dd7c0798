"""What is alive and not watched, found by what PyTorch and others keep of it."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch import nn

from leadline.frameworks.torch.diagnose.coverage_gaps import CoverageGap, find_coverage_gaps, why_no_step
from leadline.frameworks.torch.diagnose.inventory import inventory


@pytest.fixture(autouse=True)
def known() -> set[CoverageGap]:
    """What earlier tests of this process left alive."""
    return set(find_coverage_gaps([]))


def found(known: set[CoverageGap], stepped: list[torch.optim.Optimizer]) -> dict[str, str]:
    return {each.what: each.why for each in find_coverage_gaps(stepped) if each not in known}


def stepped(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    return optimizer


def test_a_plain_training_lacks_nothing(known: set[CoverageGap]) -> None:
    optimizer = stepped(nn.Linear(3, 2))
    assert found(known, [optimizer]) == {}


def test_schedulers_wrap_steps_that_are_seen_all_the_same(known: set[CoverageGap]) -> None:
    optimizer = stepped(nn.Linear(3, 2))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    assert found(known, [optimizer]) == {}
    del schedule


@pytest.mark.parametrize("place", ["instance", "class"])
def test_a_step_that_was_replaced(known: set[CoverageGap], place: str) -> None:
    class Own(torch.optim.SGD):
        pass

    optimizer = Own(nn.Linear(3, 2).parameters(), lr=0.1)
    if place == "instance":
        optimizer.step = lambda closure=None: None
    else:
        Own.step = lambda self, closure=None: None
    assert "was replaced" in found(known, [])["Own"]
    assert place in found(known, [])["Own"]


def test_an_optimizer_that_waits(known: set[CoverageGap]) -> None:
    class Waiting(torch.optim.SGD):
        pass

    optimizer = Waiting(nn.Linear(3, 2).parameters(), lr=0.1)
    assert found(known, []) == {"Waiting": "it is there and made no step so far"}
    assert found(known, [optimizer]) == {}


def test_compiled_modules_both_ways(known: set[CoverageGap]) -> None:
    class One(nn.Linear):
        pass

    class Two(nn.Linear):
        pass

    one, two = torch.compile(One(3, 2), backend="eager"), Two(3, 2)
    two.compile(backend="eager")
    (what,) = [each for each in found(known, []) if each.startswith("torch.compile")]
    assert {"One", "Two"} <= set(what.removeprefix("torch.compile of ").split(", "))
    del one


def test_graphed_and_capturable(known: set[CoverageGap]) -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)

    def graphed(x: torch.Tensor) -> torch.Tensor:
        return x

    graphed.__module__ = "torch.cuda.graphs"
    model.forward = graphed
    told = found(known, [optimizer])
    assert set(told) == {"torch.cuda.make_graphed_callables of Linear", "Adam(capturable=True)"}
    assert all("without Python" in why for why in told.values())


def test_flat_parameters(known: set[CoverageGap]) -> None:
    model = nn.Linear(3, 2)
    model.weight._is_flat_param = True
    optimizer = stepped(model)
    assert set(found(known, [optimizer])) == {"FullyShardedDataParallel (FSDP1)"}


def test_replicas(known: set[CoverageGap]) -> None:
    model = nn.DataParallel(nn.Linear(3, 2))
    model.device_ids = [0, 1]
    assert set(found(known, [])) == {"DataParallel"}
    model.device_ids = [0]
    assert found(known, []) == {}


@pytest.mark.parametrize(("package", "what"), [("deepspeed", "DeepSpeed"), ("megatron", "Megatron")])
def test_engines_of_others(known: set[CoverageGap], package: str, what: str) -> None:
    module = ModuleType(package)
    kind = type("Engine", (nn.Module,), {"__module__": f"{module.__name__}.runtime.engine"})
    engine = kind()
    assert set(found(known, [])) == {what}
    del engine


def test_no_step_at_all() -> None:
    assert why_no_step(0).what == "no backward pass, no optimizer step"
    assert why_no_step(12).what == "12 backward passes and no optimizer step"


def test_a_survey_counts_elements_and_names_what_is_kept() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    model[0].bias.requires_grad_(False)
    optimizer = torch.optim.Adam([model[0].weight])
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    said = inventory([optimizer])
    (found,) = said["models"]
    assert (found["name"], found["parameters"], found["trainable"], found["tensors"]) == ("Sequential", 8, 6, 2)
    assert said["optimizers"][0]["variables"] == ["exp_avg", "exp_avg_sq", "step"]
    assert {"linear", "relu", "sequential"} <= set(said["module_kinds"])
