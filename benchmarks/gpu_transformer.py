"""A transformer whose steps take as long as asked: eager, with AMP, compiled or in CUDA graphs; its overhead rows."""

from __future__ import annotations

import gc
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import harness
import torch
from contenders import Bare, Contender, Leadline, leadline_preset, leadline_raw
from harness import Limit, Row
from workload import LAYERS, LENGTH, ByteEncoder, Workload

MODES: Final = ("eager", "amp", "compiled", "graphs")
BEFORE: Final = 3
"""Steps of a block that are not measured: the first ones set up once what a long training uses."""
_BATCHES: Final = 4
_MOST_SAMPLES: Final = 1 << 16
_MOST_PAIRS: Final = 20
_BARE_STEPS: Final = 10
"""Bare steps of a pair with long steps: they are all alike."""


@dataclass(frozen=True, slots=True)
class Size:
    """A length of a step, and the model that is trained for it."""

    step_ms: float
    width: int
    layers: int = LAYERS


CUDA_SIZES: Final = (Size(5, 256), Size(50, 512), Size(200, 1024))
"""Models with 5, 19 and 76 million elements."""
CPU_SIZES: Final = (Size(5, 32, 2), Size(50, 64, 2), Size(200, 128, 2))


@dataclass(frozen=True, slots=True)
class Kind:
    """What a row captures."""

    name: str
    make: Callable[[], Contender]
    steps: int
    """Measured steps of a block, one of which is captured unless the step is quiet."""
    limit: float | None = None
    is_closed: bool = True
    """Whether closing Leadline counts."""


KINDS: Final = (
    Kind("quiet step", lambda: Leadline(["losses:every=1"], has_loss=True), 10, is_closed=False),
    Kind("preset standard without activations", leadline_preset, 50, 1.02),
    Kind("raw, every 10", lambda: leadline_raw(10), 10, 1.02),
)


class Training(Workload):
    """The transformer in one of the modes."""

    def __init__(self, size: Size, mode: str, device: str) -> None:
        torch.manual_seed(0)
        model = ByteEncoder(size.width, size.layers).to(device)
        super().__init__(model, torch.optim.AdamW(model.parameters(), lr=1e-4), [])
        self.batch = 0
        self._size, self._mode, self._device = size, mode, device
        self._forward: Callable[[torch.Tensor], torch.Tensor] = model

    def loss_of(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch, computed in the mode."""
        with torch.autocast(self._device, torch.bfloat16, enabled=self._mode == "amp"):
            out = self._forward(inputs)
            return self.loss(out.reshape(-1, out.shape[-1]), targets.reshape(-1))  # type: ignore[no-any-return]

    def calibrate(self) -> None:
        """Choose the batch with which an eager step takes as long as asked."""
        target = self._size.step_ms / 1e3
        batch, before, seconds = 1, 0.0, self._try_batch(1)
        while seconds < target and batch < _MOST_SAMPLES:
            try:
                before, seconds = seconds, self._try_batch(2 * batch)
            except torch.cuda.OutOfMemoryError:
                break
            batch *= 2
        if seconds > target > before and batch > 1:
            batch -= round(batch / 2 * (seconds - target) / (seconds - before))
        self._resize(batch)

    def prepare(self, backend: str) -> None:
        """Compile the model or record its graphs, where the mode says so.

        Args:
            backend: Of the compiler.
        """
        if self._mode == "compiled":
            self._forward = torch.compile(self.model, backend=backend)
        elif self._mode == "graphs":
            self._forward = torch.cuda.make_graphed_callables(self.model, (self._batches[0][0].clone(),))
        self.seconds(BEFORE)

    def description(self) -> dict[str, float]:
        """Return the batch, the number of elements of all parameters, and the length of a step."""
        elements = sum(parameter.numel() for parameter in self.model.parameters())
        return {"batch": self.batch, "elements": elements, "step_ms": round(1e3 * self.seconds(3), 3)}

    def seconds(self, steps: int) -> float:
        """Train some steps; return what each takes, including the work on the device."""
        self.synchronize()
        began = time.perf_counter()
        for _ in range(steps):
            self.step()
        self.synchronize()
        return (time.perf_counter() - began) / steps

    def synchronize(self) -> None:
        """Wait for the device."""
        if self._device == "cuda":
            torch.cuda.synchronize()

    def _try_batch(self, batch: int) -> float:
        self._resize(batch)
        self.seconds(2)
        return self.seconds(3)

    def _resize(self, batch: int) -> None:
        self.batch, self._batches = batch, []
        tokens = torch.randint(0, 256, (_BATCHES, batch, LENGTH + 1), device=self._device)
        self._batches = [(part[:, :-1].contiguous(), part[:, 1:].contiguous()) for part in tokens]


class Blocks:
    """Blocks of steps of one training, bare and watched."""

    def __init__(self, training: Training, scratch: Path) -> None:
        self.step_seconds = training.seconds(5)
        self._training, self._scratch = training, scratch
        self._expected = self._found = 0

    def expected_seconds(self, kind: Kind) -> float:
        """Return what a pair of blocks takes at least."""
        return self.step_seconds * (kind.steps + self._bare_steps(kind) + 2 * BEFORE)

    def measure(self, name: str, kind: Kind, seconds: float) -> Row:
        """Return a row of at least two pairs of blocks, as many as fit into a time."""
        self.train(kind.make(), 1, kind)
        self._expected = self._found = 0
        pairs = harness.pairs(
            lambda: self.train(Bare(), self._bare_steps(kind), kind),
            lambda: self.train(kind.make(), kind.steps, kind),
            count=max(2, min(_MOST_PAIRS, int(seconds / self.expected_seconds(kind)))),
            warmups=0,
        )
        ratios = tuple(watched / bare for bare, watched in pairs)
        bare_ms = 1e3 * harness.spread([bare for bare, _ in pairs]).median
        added_us = 1e6 * harness.spread([watched - bare for bare, watched in pairs]).median
        note = f"bare {bare_ms:.3g} ms per step, {added_us:+,.0f} us"
        limit = Limit(kind.limit) if kind.limit is not None else None
        return Row(name, "x", harness.spread(ratios), limit, self._expected, self._found, note, ratios)

    def train(self, contender: Contender, steps: int, kind: Kind) -> float:
        """Train a block; return the seconds of a measured step."""
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        training = self._training
        gc.collect()
        contender.open(folder, training)
        training.seconds(BEFORE)
        began = time.perf_counter()
        training.seconds(steps)
        if kind.is_closed:
            contender.close()
        seconds = (time.perf_counter() - began) / steps
        if not kind.is_closed:
            contender.close()
        stored = contender.count(BEFORE + steps)
        self._expected += stored.expected
        self._found += min(stored.found, stored.expected)
        shutil.rmtree(folder)
        return seconds

    def _bare_steps(self, kind: Kind) -> int:
        return kind.steps if self.step_seconds < 0.02 else min(kind.steps, _BARE_STEPS)
