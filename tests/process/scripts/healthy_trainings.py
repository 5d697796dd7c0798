"""Ten healthy trainings of different kinds: KINDS SEEDS FOLDER [default].

With everything captured that any rule needs; with ``default`` as ``leadline run`` captures by default. Trainings whose
run is complete are left out.
"""

from __future__ import annotations

import copy
import math
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F
from watched_runs import is_complete, watched


def warm_up_and_cosine(optimizer: torch.optim.Optimizer, warm_up: int, steps: int) -> torch.optim.lr_scheduler.LambdaLR:
    def factor(step: int) -> float:
        if step < warm_up:
            return step / warm_up
        return 0.5 * (1 + math.cos(math.pi * (step - warm_up) / (steps - warm_up)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def evaluate(model: nn.Module, loss: Callable[[], torch.Tensor]) -> None:
    model.eval()
    with torch.no_grad():
        loss()
    model.train()


def blobs(count: int, features: int, classes: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    centres = 1.2 * torch.randn(classes, features, generator=torch.Generator().manual_seed(7))
    labels = torch.randint(classes, (count,), generator=generator)
    return centres[labels] + torch.randn(count, features, generator=generator), labels


def mlp(seed: int) -> list[float]:
    """A classifier; AdamW, warm-up from 0, cosine to 0, dropout, evaluation every 50 steps."""
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    steps, optimizer, loss = 400, torch.optim.AdamW(model.parameters(), lr=3e-3), nn.CrossEntropyLoss()
    schedule, losses = warm_up_and_cosine(optimizer, 40, steps), []
    held_out = blobs(128, 16, 4, generator)
    for step in range(steps):
        inputs, labels = blobs(32, 16, 4, generator)
        optimizer.zero_grad()
        found = loss(model(inputs), labels)
        found.backward()
        optimizer.step()
        schedule.step()
        losses.append(found.item())
        if step % 50 == 49:
            evaluate(model, lambda: loss(model(held_out[0]), held_out[1]))
    return losses


def cnn(seed: int) -> list[float]:
    """Images of noise with a bright bar; SGD with momentum, steps in the rate, batch normalization."""
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 4),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    schedule, losses = torch.optim.lr_scheduler.MultiStepLR(optimizer, [150, 250]), []

    def batch(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        images, labels = (
            torch.randn(count, 1, 12, 12, generator=generator),
            torch.randint(4, (count,), generator=generator),
        )
        for image, label in zip(images, labels, strict=True):
            half = image[0, :6] if label < 2 else image[0, 6:]
            half[:, :6] += 1.5 * float(label % 2 == 0)
            half[:, 6:] += 1.5 * float(label % 2 == 1)
        return images, labels

    held_out = batch(64)
    for step in range(300):
        images, labels = batch(32)
        optimizer.zero_grad(set_to_none=False)
        found = F.cross_entropy(model(images), labels)
        found.backward()
        optimizer.step()
        schedule.step()
        losses.append(found.item())
        if step % 60 == 59:
            evaluate(model, lambda: F.cross_entropy(model(held_out[0]), held_out[1]))
    return losses


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 16)
        self.gru = nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(32, 12)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(self.embedding(tokens))[0])


def counting(count: int, length: int, generator: torch.Generator) -> torch.Tensor:
    """Token sequences that count up by one or two, with occasional wrong tokens."""
    start = torch.randint(12, (count, 1), generator=generator)
    by = torch.randint(1, 3, (count, 1), generator=generator)
    tokens = (start + by * torch.arange(length + 1)) % 12
    wrong = torch.rand(tokens.shape, generator=generator) < 0.05
    return torch.where(wrong, torch.randint(12, tokens.shape, generator=generator), tokens)


def rnn(seed: int) -> list[float]:
    """Next-token prediction with a GRU; Adam, gradients clipped to 1."""
    generator = torch.Generator().manual_seed(seed)
    model = Recurrent()
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=5e-3), []
    for _ in range(300):
        tokens = counting(16, 12, generator)
        optimizer.zero_grad()
        found = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        found.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(found.item())
    return losses


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 32)
        self.places = nn.Parameter(0.02 * torch.randn(12, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 12)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.norm(self.encoder(self.embedding(tokens) + self.places, mask=mask, is_causal=True)))


def transformer(seed: int) -> list[float]:
    """Next-token prediction with a transformer; AdamW, warm-up, cosine to 0, two micro-batches, clipping to 1."""
    generator = torch.Generator().manual_seed(seed)
    model, steps = Attending(), 300
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
    schedule, losses = warm_up_and_cosine(optimizer, 50, steps), []

    def loss(tokens: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    for step in range(steps):
        optimizer.zero_grad()
        for _ in range(2):
            tokens = counting(12, 12, generator)
            found = loss(tokens)
            (found / 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(found.item())
        if step % 100 == 99:
            evaluate(model, partial(loss, tokens))
    return losses


def gan(seed: int) -> list[float]:
    """Points on a ring; two networks, two Adams, as in DCGAN."""
    generator = torch.Generator().manual_seed(seed)

    def layers(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            nn.Linear(inputs, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, outputs)
        )

    maker, critic, loss = layers(4, 2), layers(2, 1), nn.BCEWithLogitsLoss()
    for_maker = torch.optim.Adam(maker.parameters(), lr=1e-3, betas=(0.5, 0.999))
    for_critic = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))
    distances = []
    for _ in range(500):
        angle = 2 * math.pi * torch.rand(64, 1, generator=generator)
        real = torch.cat([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(64, 2, generator=generator)
        made = maker(torch.randn(64, 4, generator=generator))
        for_critic.zero_grad()
        (loss(critic(real), torch.ones(64, 1)) + loss(critic(made.detach()), torch.zeros(64, 1))).backward()
        for_critic.step()
        for_maker.zero_grad()
        loss(critic(made), torch.ones(64, 1)).backward()
        for_maker.step()
        distances.append(float((made.detach().norm(dim=1) - 1).abs().mean()))
    return distances


class Variational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 16))

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, log_variance = self.encoder(inputs).chunk(2, 1)
        return self.decoder(mean + (log_variance / 2).exp() * torch.randn_like(mean)), mean, log_variance


def vae(seed: int) -> list[float]:
    """A variational autoencoder on data with four latent factors; Adam."""
    generator = torch.Generator().manual_seed(seed)
    model, mixing = Variational(), torch.randn(4, 16, generator=torch.Generator().manual_seed(7))
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=2e-3), []
    for _ in range(400):
        inputs = torch.randn(64, 4, generator=generator) @ mixing / 2 + 0.1 * torch.randn(64, 16, generator=generator)
        optimizer.zero_grad()
        made, mean, log_variance = model(inputs)
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
        found = 16 * F.mse_loss(made, inputs) + 0.1 * divergence
        found.backward()
        optimizer.step()
        losses.append(found.item())
    return losses


def policy_gradient(seed: int) -> list[float]:
    """REINFORCE with a baseline in a corridor: the return rises, the loss is not meaningful."""
    from leadline import log

    generator = torch.Generator().manual_seed(seed)
    policy = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    value = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    parameters = [*policy.parameters(), *value.parameters()]
    optimizer, costs = torch.optim.Adam(parameters, lr=5e-3), []
    for _ in range(300):
        place = torch.empty(64).uniform_(-1, 1, generator=generator)
        goal = torch.empty(64).uniform_(-1, 1, generator=generator)
        chances, rewards, states = [], [], []
        for _ in range(6):
            state = torch.stack([place, goal], 1)
            with torch.no_grad():
                action = torch.multinomial(policy(state).softmax(1), 1, generator=generator)[:, 0]
            states.append(state)
            chances.append(action)
            place = (place + 0.2 * (2.0 * action - 1)).clamp(-1, 1)
            rewards.append(-(place - goal).abs())
        returns = torch.stack(rewards).flip(0).cumsum(0).flip(0)
        states_, actions = torch.cat(states), torch.cat(chances)
        baseline = value(states_)[:, 0]
        advantage = returns.flatten() - baseline.detach()
        optimizer.zero_grad()
        chosen = F.log_softmax(policy(states_), 1).gather(1, actions[:, None])[:, 0]
        found = -(chosen * advantage).mean() + 0.5 * F.mse_loss(baseline, returns.flatten())
        found.backward()
        nn.utils.clip_grad_norm_(parameters, 5.0)
        optimizer.step()
        costs.append(-float(returns[0].mean()))
        log(episode_return=-costs[-1])
    return costs


def regression(seed: int) -> list[float]:
    """A smooth function of eight scaled features; SGD with Nesterov momentum, cosine; varying batch sizes."""
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    loss, schedule, losses = nn.MSELoss(), torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 400), []
    for step in range(400):
        inputs = torch.randn(32 if step % 10 else 20, 8, generator=generator)
        targets = (inputs[:, :1].sin() + inputs[:, 1:2] * inputs[:, 2:3]) + 0.1 * torch.randn(
            len(inputs), 1, generator=generator
        )
        optimizer.zero_grad()
        found = loss(model(inputs), targets)
        found.backward()
        optimizer.step()
        schedule.step()
        losses.append(found.item())
    return losses


class FineTuned(nn.Module):
    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(64, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(inputs))


def fine_tuning(seed: int) -> list[float]:
    """Fine-tuning with a new head and frozen layers; the last of these is unfrozen halfway."""
    generator = torch.Generator().manual_seed(seed)
    backbone = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    for parameter in backbone.parameters():
        parameter.requires_grad_(False)
    model, losses = FineTuned(backbone), []
    optimizer = torch.optim.Adam(model.head.parameters(), lr=3e-3)
    for step in range(300):
        if step == 150:
            backbone[3].requires_grad_(True)
            optimizer.add_param_group({"params": list(backbone[3].parameters()), "lr": 3e-4})
        inputs, labels = blobs(32, 16, 4, generator)
        optimizer.zero_grad()
        found = F.cross_entropy(model(inputs), labels)
        found.backward()
        optimizer.step()
        losses.append(found.item())
    return losses


def amp(seed: int) -> list[float]:
    """Float16 under autocast with a gradient scaler, which skips its first steps; an averaged copy for evaluation."""
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 4)
    )
    average = copy.deepcopy(model).eval()
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=2e-3), []
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=200)
    for _ in range(350):
        inputs, labels = blobs(32, 16, 4, generator)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            found = F.cross_entropy(model(inputs), labels)
        scaler.scale(found).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        with torch.no_grad():
            for one, other in zip(average.parameters(), model.parameters(), strict=True):
                one.lerp_(other, 0.05)
        losses.append(found.item())
    return losses


KINDS = (mlp, cnn, rnn, transformer, gan, vae, policy_gradient, regression, fine_tuning, amp)


def has_learned(losses: list[float]) -> bool:
    """Return whether the last tenth is better than the first by a third."""
    part = len(losses) // 10
    return sum(losses[-part:]) < 0.67 * sum(losses[:part])


def main() -> None:
    wanted, seeds, folder = sys.argv[1].split(","), [int(seed) for seed in sys.argv[2].split(",")], sys.argv[3]
    is_default = "default" in sys.argv[4:]
    torch.set_num_threads(1)
    for kind in KINDS:
        for seed in seeds if kind.__name__ in wanted else ():
            if is_complete(folder, f"{kind.__name__}-{seed}"):
                continue
            begun = time.perf_counter()
            torch.manual_seed(seed)
            with watched(folder, f"{kind.__name__}-{seed}", is_default=is_default):
                losses = kind(seed)
            assert has_learned(losses), f"{kind.__name__} {seed} is not healthy: {losses[:5]} … {losses[-5:]}"
            print(kind.__name__, seed, f"{losses[0]:.3g} to {losses[-1]:.3g} in {time.perf_counter() - begun:.1f} s")


if __name__ == "__main__":
    main()
