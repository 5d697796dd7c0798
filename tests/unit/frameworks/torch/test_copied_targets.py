"""Targets that are the input of a model, with noise and without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from leadline.frameworks.torch.check.copied_targets import noisy_target
from leadline.frameworks.torch.check.loss_calls import loss_calls
from leadline.frameworks.torch.check.step_tape import TapeMode

Called = Callable[..., torch.Tensor]
Step = Callable[[Called, torch.Tensor], torch.Tensor]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, given: torch.Tensor | None = None) -> torch.Tensor:
        return self.layer(x)  # type: ignore[no-any-return]


def said(step: Step) -> str:
    torch.manual_seed(0)
    model, mode = Model(), TapeMode()

    def call(*args: torch.Tensor) -> torch.Tensor:
        with mode.left_to_script():
            output = model(*args)
        mode.add(model, args, {}, output)
        return output  # type: ignore[no-any-return]

    with mode:
        step(call, torch.randn(8, 3))
    copied: Any = type("Copied", (), {"tape": mode.tape})()
    found = noisy_target(copied, loss_calls(mode.tape.calls))
    return "" if found is None else found.message


def noised(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    level, noise = torch.randint(0, 10, (8,)), torch.randn_like(x)
    return x + level[:, None] / 10 * noise, level, noise


def of_the_input(model: Called, x: torch.Tensor) -> torch.Tensor:
    noisy, level, _ = noised(x)
    return functional.mse_loss(model(noisy, level), noisy)


def of_a_copy(model: Called, x: torch.Tensor) -> torch.Tensor:
    noisy, level, _ = noised(x)
    return functional.l1_loss(model(noisy, level.float() / 10), noisy.clone())


@pytest.mark.parametrize("step", [of_the_input, of_a_copy])
def test_a_denoiser_that_is_asked_for_its_input_is_named(step: Step) -> None:
    assert "is the input of Model itself, with the noise that was added to it" in said(step)


def of_the_noise(model: Called, x: torch.Tensor) -> torch.Tensor:
    noisy, level, noise = noised(x)
    return functional.mse_loss(model(noisy, level), noise)


def of_the_samples(model: Called, x: torch.Tensor) -> torch.Tensor:
    noisy, level, _ = noised(x)
    return functional.mse_loss(model(noisy, level), x)


def autoencoder(model: Called, x: torch.Tensor) -> torch.Tensor:
    return functional.mse_loss(model(x), x)


def made_continuous(model: Called, x: torch.Tensor) -> torch.Tensor:
    jittered = x + torch.rand_like(x) / 256
    return functional.mse_loss(model(jittered, torch.arange(8)), jittered)


def conditional_autoencoder(model: Called, x: torch.Tensor) -> torch.Tensor:
    """The samples are those of a class that was drawn, of which some values are flipped."""
    kind = torch.randint(0, 8, (8,))
    patterns = torch.arange(24).reshape(8, 3) % 2
    drawn = (patterns[kind] + (torch.rand(8, 3) < 0.2)) % 2
    return functional.binary_cross_entropy_with_logits(model(drawn.float(), kind), drawn.float())


@pytest.mark.parametrize("step", [of_the_noise, of_the_samples, autoencoder, made_continuous, conditional_autoencoder])
def test_other_targets_and_autoencoders_are_no_mistake(step: Step) -> None:
    assert not said(step)
