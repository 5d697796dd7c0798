"""What the benchmarks train: a byte-level transformer of 4.9 M parameters, and a model so small that overhead shows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

WIDTH, LAYERS, HEADS, BATCH, LENGTH = 256, 6, 4, 8, 64
"""Which makes 75 parameters, 4.87 million elements; 39 MB with their gradients."""

Batches = list[tuple[torch.Tensor, torch.Tensor]]


class ByteEncoder(nn.Module):
    """Bytes in, the distribution of each next byte out."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, batch_first=True)
        self.embedding = nn.Embedding(256, WIDTH)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 256)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(BATCH, LENGTH) int64 → (BATCH, LENGTH, 256)."""
        return self.head(self.encoder(self.embedding(tokens)))  # type: ignore[no-any-return]


class Workload:
    """A model, its optimizer and its data; ``step`` trains one step."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        batches: list[tuple[torch.Tensor, torch.Tensor]],
    ) -> None:
        self.model, self.optimizer, self.loss = model, optimizer, nn.CrossEntropyLoss()
        self._batches, self._next = batches, 0

    def step(self, before_update: Callable[[], None] | None = None) -> None:
        """One step; ``before_update`` is called between backward and the optimizer."""
        inputs, targets = self._batches[self._next % len(self._batches)]
        self._next += 1
        self.optimizer.zero_grad()
        out = self.model(inputs)
        self.loss(out.reshape(-1, out.shape[-1]), targets.reshape(-1)).backward()
        if before_update is not None:
            before_update()
        self.optimizer.step()


class Evaluation(Workload):
    """The same model, evaluated."""

    def step(self, before_update: Callable[[], None] | None = None) -> None:
        """One step without gradients."""
        inputs, targets = self._batches[self._next % len(self._batches)]
        self._next += 1
        if self.model.training or self._next % 20 == 1:
            self.model.eval()
        with torch.no_grad():
            out = self.model(inputs)
            self.loss(out.reshape(-1, out.shape[-1]), targets.reshape(-1))


def evaluation() -> Workload:
    """The transformer, evaluated: about 30 ms a step."""
    trained = transformer()
    return Evaluation(trained.model, trained.optimizer, trained._batches)


def deep() -> Workload:
    """200 modules, so small that overhead shows: a step of a few milliseconds."""
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(66)]
    model = nn.Sequential(*blocks, nn.Linear(16, 4))
    batches = [(torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(16)]
    return Workload(model, torch.optim.SGD(model.parameters(), lr=1e-3), batches)


def transformer() -> Workload:
    """The workload of the limits: about 115 ms a step on two cores."""
    torch.manual_seed(0)
    model = ByteEncoder()
    tokens = torch.randint(0, 256, (16, BATCH, LENGTH + 1))
    batches = [(each[:, :-1].contiguous(), each[:, 1:].contiguous()) for each in tokens]
    return Workload(model, torch.optim.AdamW(model.parameters(), lr=1e-4), batches)


def small() -> Workload:
    """A step of about a tenth of a millisecond."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    batches = [(torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(16)]
    return Workload(model, torch.optim.SGD(model.parameters(), lr=1e-3), batches)
