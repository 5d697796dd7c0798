"""Benchmark workloads: a byte-level transformer with 4.9 M parameters, and small models that make overhead visible."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

WIDTH, LAYERS, HEADS, BATCH, LENGTH = 256, 6, 4, 8, 64
"""This makes 75 parameters with 4.87 million elements; 39 MB with their gradients."""

Batches = list[tuple[torch.Tensor, torch.Tensor]]


class ByteEncoder(nn.Module):
    """A transformer encoder over bytes that returns the logits of each next byte."""

    def __init__(self, width: int = WIDTH, layers: int = LAYERS) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, HEADS, 4 * width, batch_first=True)
        self.embedding = nn.Embedding(256, width)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 256)

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
        """Train one step; ``before_update`` is called between backward and the optimizer step."""
        inputs, targets = self._batches[self._next % len(self._batches)]
        self._next += 1
        self.optimizer.zero_grad()
        self.loss_of(inputs, targets).backward()
        if before_update is not None:
            before_update()
        self.optimizer.step()

    def loss_of(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch."""
        out = self.model(inputs)
        return self.loss(out.reshape(-1, out.shape[-1]), targets.reshape(-1))  # type: ignore[no-any-return]


class Evaluation(Workload):
    """Evaluation of the same model."""

    def step(self, before_update: Callable[[], None] | None = None) -> None:
        """Evaluate one batch without gradients."""
        inputs, targets = self._batches[self._next % len(self._batches)]
        self._next += 1
        if self.model.training or self._next % 20 == 1:
            self.model.eval()
        with torch.no_grad():
            out = self.model(inputs)
            self.loss(out.reshape(-1, out.shape[-1]), targets.reshape(-1))


def evaluation() -> Workload:
    """Return the evaluation of the transformer: about 30 ms per step."""
    training = transformer()
    return Evaluation(training.model, training.optimizer, training._batches)


def deep() -> Workload:
    """Return a workload of 200 small modules: a few milliseconds per step."""
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(66)]
    model = nn.Sequential(*blocks, nn.Linear(16, 4))
    batches = [(torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(16)]
    return Workload(model, torch.optim.SGD(model.parameters(), lr=1e-3), batches)


def transformer() -> Workload:
    """Return the transformer, to which the limits apply: about 115 ms per step on two cores."""
    torch.manual_seed(0)
    model = ByteEncoder()
    tokens = torch.randint(0, 256, (16, BATCH, LENGTH + 1))
    batches = [(batch[:, :-1].contiguous(), batch[:, 1:].contiguous()) for batch in tokens]
    return Workload(model, torch.optim.AdamW(model.parameters(), lr=1e-4), batches)


def small() -> Workload:
    """Return a tiny workload: about a tenth of a millisecond per step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    batches = [(torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(16)]
    return Workload(model, torch.optim.SGD(model.parameters(), lr=1e-3), batches)
