"""Diaries: records that a training keeps itself, for comparison with what Leadline stored."""

import hashlib
import json
import os
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import nn

STEPS = 12
KINDS: dict[str, Callable[["Diary"], Iterable[nn.Module] | None]] = {}


class Diary:
    """Losses, weights and gradients of a training, recorded by the script."""

    def __init__(self) -> None:
        self.steps = STEPS
        self.losses: dict[str, dict[int, list[float]]] = {}
        self.weights: dict[str, dict[int, list[float]]] = {}
        self.gradients: dict[str, dict[int, list[float]]] = {}
        self.facts: dict[str, object] = {}
        """Other values that must be the same without Leadline."""

    def loss(self, step: int, value: torch.Tensor, name: str = "loss") -> None:
        self.losses.setdefault(name, {}).setdefault(step, []).append(value.item())

    def update(self, step: int, model: nn.Module, *, prefix: str = "", scale: float = 1.0) -> None:
        """Record weights and gradients just before an optimizer step (gradients divided by ``scale``)."""
        for name, parameter in model.named_parameters():
            self.parameter(step, prefix + name, parameter, scale=scale)

    def parameter(self, step: int, name: str, parameter: torch.Tensor, *, scale: float = 1.0) -> None:
        self.weights.setdefault(name, {})[step] = numbers(parameter)
        if parameter.grad is not None:
            gradient = parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad
            self.gradients.setdefault(name, {})[step] = numbers(gradient / scale)

    def write(self, path: Path, models: Iterable[nn.Module]) -> None:
        parts = [tensor.detach().cpu().contiguous() for model in models for tensor in model.state_dict().values()]
        own = {"digest": digest_of(parts), "pid": os.getpid(), "settings": settings()}
        path.write_text(json.dumps({**own, **self.__dict__}))


def numbers(tensor: torch.Tensor) -> list[float]:
    """Return all elements in logical order; real and imaginary parts of complex ones."""
    plain = tensor.detach()
    return (torch.view_as_real(plain) if plain.is_complex() else plain).flatten().tolist()


def digest_of(parts: Iterable[torch.Tensor]) -> str:
    return hashlib.sha256(b"".join(bytes(part.reshape(-1).view(torch.uint8).numpy()) for part in parts)).hexdigest()


def settings() -> dict[str, object]:
    """Return the settings of the process, which Leadline must not change."""
    return {
        "torch_random": digest_of([torch.get_rng_state()]),
        "python_random": hashlib.sha256(repr(random.getstate()).encode()).hexdigest(),
        "threads": torch.get_num_threads(),
        "dtype": str(torch.get_default_dtype()),
        "device": str(torch.empty(0).device),
        "is_deterministic": torch.are_deterministic_algorithms_enabled(),
        "has_gradients": torch.is_grad_enabled(),
        "is_autocast": torch.is_autocast_enabled("cpu"),
        "modes": torch._C._len_torch_function_stack(),
    }


def kind(train: Callable[[Diary], Iterable[nn.Module] | None]) -> Callable[[Diary], Iterable[nn.Module] | None]:
    KINDS[train.__name__] = train
    return train


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Compute the cross entropy by hand: a loss that does not come from a function of PyTorch is named ``loss``."""
    return -logits.log_softmax(1).gather(1, labels[:, None]).mean()


def error(model: nn.Module) -> torch.Tensor:
    return cross_entropy(model(torch.randn(6, 4)), torch.randint(3, (6,)))


def squares(model: nn.Module) -> torch.Tensor:
    return (model(torch.randn(6, 4)) - torch.randn(6, 3)).pow(2).mean()


def plain_step(
    diary: Diary,
    step: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: torch.Tensor,
    prefix: str = "",
) -> None:
    optimizer.zero_grad()
    loss.backward()
    diary.loss(step, loss)
    diary.update(step, model, prefix=prefix)
    optimizer.step()
