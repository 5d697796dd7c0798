"""Terms of a loss that teach nothing, on tapes of small steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from leadline.frameworks.torch.check.idle_terms import idle_term, outweighed_term
from leadline.frameworks.torch.check.step_copy import StepCopy
from leadline.frameworks.torch.check.step_tape import TapeMode
from leadline.instrumentation.check import TimeLimit

Step = Callable[[nn.Module, nn.Module, torch.Tensor], torch.Tensor]


def recorded(step: Step, number: int = 2) -> StepCopy:
    """Return the copy of a step of a model with a frozen one beside it."""
    torch.manual_seed(0)
    model, frozen, x = nn.Linear(4, 3), nn.Linear(4, 3).requires_grad_(False), torch.randn(16, 4)
    mode = TapeMode()
    with mode:
        # as the hooks do it: a model is one call of the tape
        loss = step(_called(model, mode), _called(frozen, mode), x)
        loss.backward()
    mode.tape.losses.append(loss)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return StepCopy(mode.tape, optimizer, (), step_number=number, limit=TimeLimit.of_order(60))


def _called(model: nn.Module, mode: TapeMode) -> nn.Module:
    class Called(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mode.keep_inputs(((x,), {}))
            mode.keep_state(model)
            with mode.left_to_script():
                output = model(x)
            mode.add(model, (x,), {}, output)
            return output  # type: ignore[no-any-return]

    return Called()


def test_what_cannot_be_recorded_never_reaches_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(value: object) -> None:
        raise ZeroDivisionError("ours")

    mode = TapeMode()
    monkeypatch.setattr(mode, "keep_inputs", fail)
    with mode:
        made = torch.ones(3) + 1
    assert made.tolist() == [2.0, 2.0, 2.0]
    assert mode.tape.problem.startswith("the step could not be recorded: ZeroDivisionError: ours (")


def test_a_step_of_tensors_without_a_module_is_repeated() -> None:
    torch.manual_seed(0)
    weight, x = torch.zeros(4, requires_grad=True), torch.randn(16, 4)
    mode = TapeMode()
    with mode:
        loss = functional.binary_cross_entropy_with_logits(x @ weight, (x[:, 0] > 0).float())
        loss.backward()
    mode.tape.losses.append(loss)
    step = StepCopy(mode.tape, torch.optim.SGD([weight], 0.1), (), step_number=2, limit=TimeLimit.of_order(60))
    assert step.gradients()[0].tolist() == weight.grad.tolist()  # type: ignore[union-attr]


def supervised(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(x), x[:, :3].argmax(1))


def of_the_frozen_model(model: nn.Module, frozen: nn.Module, x: torch.Tensor) -> torch.Tensor:
    given = frozen(x).softmax(1)
    return supervised(model, x) + 0.5 * functional.kl_div(frozen(x).log_softmax(1), given, reduction="batchmean")


def detached(model: nn.Module, frozen: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return supervised(model, x) + functional.mse_loss(model(x).detach(), frozen(x))


def of_classes(model: nn.Module, frozen: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return supervised(model, x) + functional.l1_loss(model(x).argmax(1).float(), frozen(x)[:, 0])


@pytest.mark.parametrize(
    ("step", "name", "why"),
    [
        (of_the_frozen_model, "kl_div", "as if its arguments were equal"),
        (detached, "mse_loss", "detach() cuts it off"),
        (of_classes, "l1_loss", "argmax() cuts it off"),
    ],
)
def test_a_term_without_a_gradient_is_named(step: Step, name: str, why: str) -> None:
    found = idle_term(recorded(step))
    assert found is not None
    assert found.message.startswith(f"{name} is a term of the loss and depends on no trained weight")
    assert found.message.endswith(why)


def weighted_by_a_loss(model: nn.Module, frozen: nn.Module, x: torch.Tensor) -> torch.Tensor:
    weight = functional.mse_loss(model(x).detach(), frozen(x))
    return supervised(model, x) * weight


def of_a_frozen_part(model: nn.Module, frozen: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return supervised(model, x) + functional.mse_loss(frozen(x), x[:, :3])


def distilled(model: nn.Module, frozen: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return supervised(model, x) + functional.mse_loss(model(x), frozen(x))


@pytest.mark.parametrize("step", [weighted_by_a_loss, of_a_frozen_part, distilled])
def test_factors_frozen_parts_and_terms_with_a_gradient_are_no_mistake(step: Step) -> None:
    assert idle_term(recorded(step)) is None


def penalized(*, create_graph: bool) -> Step:
    def step(model: nn.Module, frozen: nn.Module, x: torch.Tensor) -> torch.Tensor:
        point = x.clone().requires_grad_()
        output = model(point).square().sum()
        slope = torch.autograd.grad(output, point, create_graph=create_graph, retain_graph=True)[0]
        return supervised(model, x) + 0.1 * (slope.norm(dim=1) - 1).square().mean()

    return step


def adversarial(model: nn.Module, frozen: nn.Module, x: torch.Tensor) -> torch.Tensor:
    point = x.clone().requires_grad_()
    slope = torch.autograd.grad(model(point).square().sum(), point)[0]
    return supervised(model, x) + supervised(model, x + 0.1 * slope.sign())


def test_a_penalty_of_gradients_without_a_graph_is_named() -> None:
    found = idle_term(recorded(penalized(create_graph=False)))
    assert found is not None
    assert found.message.endswith("it was computed without create_graph=True")
    assert idle_term(recorded(penalized(create_graph=True))) is None
    assert idle_term(recorded(adversarial)) is None


def test_a_step_that_differentiates_is_repeated_without_gradients_of_its_own() -> None:
    step = recorded(penalized(create_graph=True))
    assert float(step.base.loss) == pytest.approx(step.recorded_loss)
    assert not step.base.loss.requires_grad
    assert all(gradient is not None for gradient in step.own_gradients)


def far_apart(scale: float, weight: float) -> Step:
    def step(model: nn.Module, frozen: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return supervised(model, x) + weight * functional.mse_loss(model(x), scale * x[:, :3])

    return step


@pytest.mark.parametrize(
    ("scale", "weight", "number", "is_named"),
    [(100.0, 1.0, 101, True), (100.0, 1.0, 2, False), (5.0, 1.0, 101, False), (100.0, 1e-4, 101, False)],
)
def test_a_term_that_outweighs_all_others(scale: float, weight: float, number: int, is_named: bool) -> None:
    found = outweighed_term(recorded(far_apart(scale, weight), number))
    assert (found is not None) == is_named
    if found is not None:
        assert "mse_loss is 1" in found.message
