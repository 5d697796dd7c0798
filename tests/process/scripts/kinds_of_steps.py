"""Kinds of training with steps other than one optimizer step after one backward pass."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import wraps

import torch
from diary import STEPS, Diary, kind, net, plain_step, squares
from torch import nn
from torch.autograd import backward


def deep() -> nn.Sequential:
    """A model with more parameters than the number of steps after which an inactive clock owner is replaced."""
    return nn.Sequential(nn.Linear(4, 3), *[nn.Linear(3, 3) for _ in range(6)])


@kind
def within_backward(diary: Diary) -> Iterable[nn.Module]:
    """One optimizer per parameter, which steps as soon as the gradient is available and then frees it."""
    model = deep()
    names = {parameter: name for name, parameter in model.named_parameters()}
    optimizers = {parameter: torch.optim.Adam([parameter], lr=0.01) for parameter in model.parameters()}
    step = 0

    def update(parameter: torch.Tensor) -> None:
        diary.parameter(step, names[parameter], parameter)
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    for step in range(STEPS):
        loss = squares(model)
        diary.loss(step, loss)
        loss.backward()
    return [model]


@kind
def layered(diary: Diary) -> Iterable[nn.Module]:
    """One optimizer per parameter: the first owns the clock, updates of the others count for the next step."""
    model = deep()
    named = list(model.named_parameters())
    optimizers = [torch.optim.SGD([parameter], lr=0.01) for _, parameter in named]
    for step in range(STEPS):
        model.zero_grad()
        loss = squares(model)
        loss.backward()
        diary.loss(step, loss)
        for index, (optimizer, (name, parameter)) in enumerate(zip(optimizers, named, strict=True)):
            if not index or step + 1 < STEPS:
                diary.parameter(step + bool(index), name, parameter)
            optimizer.step()
    return [model]


PREFIXES = ("", "Sequential_", "Sequential_1_")
"""What the names of parameters begin with, if several live models have the same ones."""


@kind
def phases(diary: Diary) -> Iterable[nn.Module]:
    """A warm-up optimizer is kept but never steps again: the next one takes over the clock at once."""
    model = net()
    warming, training = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.Adam(model.parameters())
    for step in range(24):
        plain_step(diary, step, model, warming if step < 4 else training, squares(model))
    diary.steps = 24
    return [model]


@kind
def swept(diary: Diary) -> Iterable[nn.Module]:
    """Three trainings; all models and optimizers stay alive. Each takes over the clock at its first step."""
    kept = []
    for index, prefix in enumerate(PREFIXES):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1 / (index + 1))
        kept.append((model, optimizer))
        for step in range(STEPS * index, STEPS * (index + 1)):
            plain_step(diary, step, model, optimizer, squares(model), prefix)
    diary.steps = STEPS * len(PREFIXES)
    return [model for model, _ in kept]


@kind
def federated(diary: Diary) -> Iterable[nn.Module]:
    """Clients train five steps each, in turn, and begin again with the mean of their weights."""
    clients = [nn.Sequential(OrderedDict({name: net()})) for name in "abc"]
    optimizers = [torch.optim.SGD(client.parameters(), lr=0.05) for client in clients]
    for turn in range(3 * len(clients)):
        index = turn % len(clients)
        for step in range(5 * turn, 5 * turn + 5):
            plain_step(diary, step, clients[index], optimizers[index], squares(clients[index]))
        if index == len(clients) - 1:
            states = [client[0].state_dict() for client in clients]
            mean = {name: sum(state[name] for state in states) / len(states) for name in states[0]}
            for client in clients:
                client[0].load_state_dict(mean)
    diary.steps = 5 * 3 * len(clients)
    return clients


class Marked(torch.Tensor):
    """A tensor subclass."""


@kind
def engines(diary: Diary) -> Iterable[nn.Module]:
    """Four ways to start a backward pass; ``backward`` was imported before Leadline patched it."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        begun = [squares(model) for _ in range(4)]
        begun[0].as_subclass(Marked).backward(retain_graph=True)
        torch.autograd.backward([begun[1]])
        backward(begun[2])
        begun[3].backward(torch.ones_like(begun[3]))
        for index, loss in enumerate(begun):
            diary.loss(step, loss, f"loss_{index}" if index else "loss")
        diary.update(step, model)
        optimizer.step()
    return [model]


@kind
def together(diary: Diary) -> Iterable[nn.Module]:
    """Two tensors in one backward call are micro-batches of one loss."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        both = [squares(model), squares(model)]
        torch.autograd.backward(both)
        for loss in both:
            diary.loss(step, loss)
        diary.update(step, model)
        optimizer.step()
    return [model]


class Sharpness(torch.optim.Optimizer):
    """Sharpness-aware minimization: a closure, a manual perturbation, and the step of another optimizer inside."""

    def __init__(self, parameters: Iterable[torch.Tensor]) -> None:
        super().__init__(parameters, {})
        self.inner = torch.optim.SGD(self.param_groups, lr=0.1)

    def step(self, closure: Callable[[], torch.Tensor]) -> torch.Tensor:  # type: ignore[override]
        with torch.enable_grad():
            loss = closure()
        detours = [(weight, weight.grad * 0.05) for group in self.param_groups for weight in group["params"]]
        with torch.no_grad():
            for parameter, detour in detours:
                parameter.add_(detour)
        with torch.enable_grad():
            closure()
        with torch.no_grad():
            for parameter, detour in detours:
                parameter.sub_(detour)
        self.inner.step()
        return loss


@kind
def sharpened(diary: Diary) -> Iterable[nn.Module]:
    """The gradients are those of the first evaluation."""
    model = net()
    optimizer = Sharpness(model.parameters())
    for step in range(STEPS):
        inputs, targets = torch.randn(6, 4), torch.randn(6, 3)
        evaluations = 0

        def evaluate() -> torch.Tensor:
            nonlocal evaluations
            optimizer.zero_grad()
            loss = (model(inputs) - targets).pow(2).mean()  # noqa: B023
            loss.backward()
            diary.loss(step, loss)  # noqa: B023
            if not evaluations:
                diary.update(step, model)  # noqa: B023
            evaluations += 1
            return loss

        optimizer.step(evaluate)
    return [model]


@kind
def named_closure(diary: Diary) -> Iterable[nn.Module]:
    """The closure is passed as a keyword argument, as trainers do."""
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):

        def evaluate() -> torch.Tensor:
            loss = squares(model)
            optimizer.zero_grad()
            loss.backward()
            diary.loss(step, loss)  # noqa: B023
            diary.update(step, model)  # noqa: B023
            return loss

        optimizer.step(closure=evaluate)
    return [model]


@kind
def scheduled(diary: Diary) -> Iterable[nn.Module]:
    """A scheduler wraps the step; the script wraps it again."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=STEPS + 1)
    original = optimizer.step

    @wraps(original)
    def counted(*args: object, **kwargs: object) -> object:
        diary.facts["calls"] = int(str(diary.facts.get("calls", 0))) + 1
        return original(*args, **kwargs)

    optimizer.step = counted  # type: ignore[method-assign]
    for step in range(STEPS):
        plain_step(diary, step, model, optimizer, squares(model))
        schedule.step()
    return [model]


@kind
def scaled_twice(diary: Diary) -> Iterable[nn.Module]:
    """One scaler for two optimizers: the second's updates count for the next step."""
    model = net()
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in (model[0], model[2])]
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=3)
    for step in range(STEPS):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = squares(model)
        model.zero_grad()
        scaler.scale(loss).backward()
        diary.loss(step, loss)
        for index, optimizer in enumerate(optimizers):
            for name, parameter in model[2 * index].named_parameters():
                if step + index < STEPS:
                    diary.parameter(step + index, f"{2 * index}.{name}", parameter, scale=scaler.get_scale())
            scaler.step(optimizer)
        scaler.update()
    diary.facts["scale"] = scaler.get_scale()
    return [model]


@kind
def unscaled(diary: Diary) -> Iterable[nn.Module]:
    """A disabled scaler does nothing, with or without autocast."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for step in range(STEPS):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bool(step % 2)):
            loss = squares(model)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        diary.loss(step, loss)
        diary.update(step, model)
        scaler.step(optimizer)
        scaler.update()
    return [model]
