"""Many kinds of training, one process per kind; every training writes a diary.

Usage: kinds.py FOLDER KIND…; writes ``FOLDER/<kind>.json`` with the digest of the final weights and the losses, weights
and gradients of every step as recorded by the script.
"""

import copy
import io
import os
import pickle
import random
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import kinds_of_parameters  # noqa: F401 - registers its kinds
import kinds_of_processes  # noqa: F401
import kinds_of_steps  # noqa: F401
import torch
from diary import KINDS, STEPS, Diary, cross_entropy, error, kind, net, plain_step
from forks import fork_for_each
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


@kind
def frozen(diary: Diary) -> Iterable[nn.Module]:
    model = net()
    model[0].requires_grad_(False)
    optimizer = torch.optim.Adam([parameter for parameter in model.parameters() if parameter.requires_grad])
    for step in range(STEPS):
        plain_step(diary, step, model, optimizer, error(model))
    return [model]


class Generator(nn.Sequential): ...


class Discriminator(nn.Sequential): ...


@kind
def adversarial(diary: Diary) -> Iterable[nn.Module]:
    """The discriminator steps first and owns the clock: the generator's update is part of the next step."""
    generator = Generator(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4))
    discriminator = Discriminator(nn.Linear(4, 8), nn.LeakyReLU(), nn.Linear(8, 1))
    generating = torch.optim.Adam(generator.parameters(), lr=1e-3)
    judging = torch.optim.Adam(discriminator.parameters(), lr=1e-3)

    def score(logits: torch.Tensor, sign: int) -> torch.Tensor:
        return (1 + (-sign * logits).exp()).log().mean()

    for step in range(STEPS):
        real, fake = torch.randn(6, 4) + 1, generator(torch.randn(6, 2))
        judging.zero_grad()
        loss = score(discriminator(real), 1) + score(discriminator(fake.detach()), -1)
        loss.backward()
        diary.loss(step, loss)
        diary.update(step, discriminator, prefix="Discriminator_")
        judging.step()
        generating.zero_grad()
        loss = score(discriminator(fake), 1)
        loss.backward()
        if step + 1 < STEPS:
            diary.loss(step + 1, loss, "loss_1")
            diary.update(step + 1, generator, prefix="Generator_")
        generating.step()
    return [generator, discriminator]


@kind
def closure(diary: Diary) -> Iterable[nn.Module]:
    """LBFGS evaluates several times per step; the captured gradients are those of the first evaluation."""
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.01, max_iter=4)
    for step in range(STEPS):
        inputs, labels = torch.randn(6, 4), torch.randint(3, (6,))
        evaluations = 0

        def evaluate() -> torch.Tensor:
            nonlocal evaluations
            optimizer.zero_grad()
            loss = cross_entropy(model(inputs), labels)  # noqa: B023
            loss.backward()
            diary.loss(step, loss)  # noqa: B023
            if not evaluations:
                diary.update(step, model)  # noqa: B023
            evaluations += 1
            return loss

        optimizer.step(evaluate)
    diary.facts["evaluations"] = evaluations
    return [model]


@kind
def accumulation(diary: Diary) -> Iterable[nn.Module]:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        for _ in range(4):
            loss = error(model) / 4
            loss.backward()
            diary.loss(step, loss)
        diary.update(step, model)
        optimizer.step()
    return [model]


def _scaled(
    diary: Diary, optimizer: torch.optim.Optimizer, model: nn.Module, dtype: torch.dtype, *, clips: bool
) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=4)
    step = 0

    def overflow(gradient: torch.Tensor) -> torch.Tensor:
        return gradient * float("inf") if step == 5 else gradient

    model[2].weight.register_hook(overflow)
    for step in range(STEPS):
        with torch.autocast("cpu", dtype=dtype):
            loss = error(model)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        diary.loss(step, loss)
        scale = scaler.get_scale()
        if clips:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        diary.update(step, model, scale=1.0 if clips else scale)
        scaler.step(optimizer)
        scaler.update()
    diary.facts["scale"] = scaler.get_scale()


@kind
def scaled_bfloat16(diary: Diary) -> Iterable[nn.Module]:
    model = net()
    _scaled(diary, torch.optim.AdamW(model.parameters()), model, torch.bfloat16, clips=False)
    return [model]


@kind
def scaled_float16(diary: Diary) -> Iterable[nn.Module]:
    model = net()
    _scaled(diary, torch.optim.SGD(model.parameters(), lr=0.1), model, torch.float16, clips=True)
    return [model]


@kind
def scaled_fused(diary: Diary) -> Iterable[nn.Module]:
    """A fused optimizer unscales gradients and skips steps itself."""
    model = net()
    _scaled(diary, torch.optim.AdamW(model.parameters(), fused=True), model, torch.bfloat16, clips=False)
    return [model]


@kind
def loading(diary: Diary) -> Iterable[nn.Module]:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(6 * STEPS, 4), torch.randint(3, (6 * STEPS,)))
    loader = DataLoader(data, batch_size=6, shuffle=True, num_workers=2, multiprocessing_context="fork")
    for step, (inputs, labels) in enumerate(loader):
        plain_step(diary, step, model, optimizer, cross_entropy(model(inputs), labels))
    return [model]


@kind
def threaded(diary: Diary) -> Iterable[nn.Module]:
    model = net()

    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(STEPS):
            plain_step(diary, step, model, optimizer, error(model))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    return [model]


@kind
def rebuilt(diary: Diary) -> Iterable[nn.Module]:
    """Three sequential trainings; the objects of one are gone before the next begins."""
    for attempt in range(3):
        model = net()
        optimizer = torch.optim.Adam(model.parameters())
        for step in range(4):
            plain_step(diary, 4 * attempt + step, model, optimizer, error(model))
        if attempt < 2:
            del model, optimizer
    return [model]


@kind
def sparse(diary: Diary) -> Iterable[nn.Module]:
    model = nn.Sequential(nn.EmbeddingBag(20, 4, sparse=True), nn.Linear(4, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        loss = cross_entropy(model(torch.randint(20, (6, 3))), torch.randint(3, (6,)))
        plain_step(diary, step, model, optimizer, loss)
    return [model]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 6)
        self.head = nn.Linear(6, 10, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(tokens))


@kind
def tied(diary: Diary) -> Iterable[nn.Module]:
    model = Tied()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        tokens = torch.randint(10, (6,))
        plain_step(diary, step, model, optimizer, cross_entropy(model(tokens), tokens.roll(1)))
    return [model]


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.2))
        self.second = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.2))
        self.head = nn.Linear(8, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = checkpoint(self.first, inputs.requires_grad_(), use_reentrant=True)
        return self.head(checkpoint(self.second, hidden, use_reentrant=False))


@kind
def checkpointed(diary: Diary) -> Iterable[nn.Module]:
    model = Checkpointed()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        plain_step(diary, step, model, optimizer, error(model))
    return [model]


class Careful(torch.optim.SGD):
    """A custom optimizer that wraps the step of another."""

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        return super().step(closure)


@kind
def nested(diary: Diary) -> Iterable[nn.Module]:
    model = net()
    optimizer = Careful(model.parameters(), lr=0.1)
    for step in range(STEPS):
        plain_step(diary, step, model, optimizer, error(model))
    return [model]


@kind
def copied(diary: Diary) -> Iterable[nn.Module]:
    """Copies, pickles and checkpoints during the training contain only the model."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    average = copy.deepcopy(model)
    for step in range(STEPS):
        plain_step(diary, step, model, optimizer, error(model))
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(file, weights_only=False)]
        assert copy.deepcopy(optimizer).state_dict()["state"].keys() == optimizer.state_dict()["state"].keys()
        assert pickle.loads(pickle.dumps(optimizer)).param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]
        for twin in twins:
            assert all(torch.equal(*pair) for pair in zip(twin.parameters(), model.parameters(), strict=True))
            assert not any(module._forward_hooks or module._backward_hooks for module in twin.modules())
        for mean, parameter in zip(average.parameters(), model.parameters(), strict=True):
            mean.data.lerp_(parameter.data, 0.1)
    return [model, average]


class Flaky(torch.optim.SGD):
    calls = 0

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        Flaky.calls += 1
        if Flaky.calls == 6:
            raise RuntimeError("a hiccup")
        return super().step(closure)


@kind
def raising(diary: Diary) -> Iterable[nn.Module]:
    """The sixth step fails in the optimizer, and the script continues: the step does not count."""
    model = net()
    optimizer = Flaky(model.parameters(), lr=0.1)
    step = 0
    for attempt in range(STEPS):
        loss = error(model)
        optimizer.zero_grad()
        loss.backward()
        if attempt not in (5, 6):
            diary.loss(step, loss)
            diary.update(step, model)
        try:
            optimizer.step()
        except RuntimeError:
            continue
        step += 1
    diary.steps = step
    return [model]


@kind
def penalised(diary: Diary) -> Iterable[nn.Module]:
    """A gradient penalty: autograd.grad within the step is not a loss."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(STEPS):
        inputs = torch.randn(6, 4, requires_grad=True)
        outputs = model(inputs)
        (slope,) = torch.autograd.grad(outputs.sum(), inputs, create_graph=True)
        plain_step(diary, step, model, optimizer, outputs.pow(2).mean() + slope.pow(2).mean())
    return [model]


def train(name: str, folder: Path) -> None:
    torch.manual_seed(11)
    random.seed(11)
    diary = Diary()
    os.chdir(folder)
    models = KINDS[name](diary)
    if models is not None:
        diary.write(Path(f"{name}.json"), models)


def main() -> None:
    import torch._dynamo

    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    train(fork_for_each(sys.argv[2:]), folder)


if __name__ == "__main__":
    main()
