"""The rows of ``frameworks.py`` for JAX: a compiled step bare and with Leadline, or with what JAX offers to find a NaN.

A network of 2.1 million parameters is trained on, with Leadline in processes of their own (see ``watched_epochs.py``),
which are this script.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import harness
import numpy as np
import watched_epochs
from harness import Limit, Row

from leadline.hook import StandaloneRun

STEPS: Final = 100
"""Steps of an epoch; the preset standard captures two of them."""
BATCH: Final = 256
UNITS: Final = 1024


@dataclass(frozen=True, slots=True)
class JaxCase:
    """A row."""

    key: str
    name: str
    preset: str = ""
    """Leadline's preset; empty for a peer."""
    peer: str = ""
    """What JAX offers: ``debug_nans`` or ``callback``."""
    limit: Limit | None = None


CASES: Final = (
    JaxCase("jax-noise", "JAX, bare against itself"),
    JaxCase("jax-standard", "JAX, preset standard", preset="standard", limit=Limit(1.03)),
    JaxCase("jax-debug-nans", "JAX, jax_debug_nans", peer="debug_nans"),
    JaxCase("jax-callback", "JAX, jax.debug.callback with norms", peer="callback"),
)


class Training:
    """A network with its data; each compiled step is built again, with what is replaced at that time."""

    def __init__(self) -> None:
        import jax
        import optax

        generator = np.random.default_rng(0)
        self._x = generator.normal(size=(BATCH * STEPS, UNITS)).astype("float32")
        self._y = generator.integers(0, 10, BATCH * STEPS)
        keys = jax.random.split(jax.random.key(0), 3)
        sizes = [(UNITS, UNITS), (UNITS, UNITS), (UNITS, 10)]
        self._start = [jax.random.normal(key, size) * 0.03 for key, size in zip(keys, sizes, strict=True)]
        self._tx = optax.adam(1e-3)

    def compiled(self, *, has_callback: bool = False) -> Callable[[], float]:
        """Return what trains one epoch with a compiled step and returns its seconds."""
        import jax
        import optax

        def loss_of(weights: Any, x: Any, y: Any) -> Any:
            for weight in weights[:-1]:
                x = jax.nn.relu(x @ weight)
            return optax.softmax_cross_entropy_with_integer_labels(x @ weights[-1], y).mean()

        @jax.jit
        def train_step(weights: Any, state: Any, x: Any, y: Any) -> Any:
            loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
            if has_callback:
                jax.debug.callback(lambda *norms: None, *[jax.numpy.linalg.norm(gradient) for gradient in gradients])
            updates, state = self._tx.update(gradients, state, weights)
            return optax.apply_updates(weights, updates), state, loss

        def epoch() -> float:
            weights, state = self._start, self._tx.init(self._start)
            began = time.perf_counter()
            for begin in range(0, len(self._x), BATCH):
                part = slice(begin, begin + BATCH)
                weights, state, loss = train_step(weights, state, self._x[part], self._y[part])
            jax.block_until_ready((weights, loss))
            jax.effects_barrier()
            return time.perf_counter() - began

        return epoch


def measure(case: JaxCase, rounds: int, training: Training) -> Row:
    """Return the row of a case."""
    if case.preset:
        return watched_epochs.measure(
            case.key, case.name, case.limit, __file__, preset=case.preset, rounds=rounds, steps=STEPS
        )
    plain, compiled = training.compiled(), training.compiled(has_callback=case.peer == "callback")
    plain()

    def peer() -> float:
        import jax

        with jax.debug_nans(case.peer == "debug_nans"):
            compiled()
            return compiled()

    return watched_epochs.measure_peer(case.key, case.name, plain, peer, rounds=rounds, steps=STEPS)


def measure_idle() -> Row:
    """Return the row of the processor time that a call of a compiled function takes longer if it does not train."""
    import jax

    def step(value: Any) -> Any:
        return value + 1

    value = jax.numpy.float32(1.0)

    def calls_of(function: Callable[[Any], Any]) -> float:
        began = time.thread_time_ns()
        for _ in range(2000):
            function(value)
        return (time.thread_time_ns() - began) / 2000 / 1000

    bare = jax.jit(step)
    folder = tempfile.mkdtemp(prefix="leadline-jax-")
    standalone = StandaloneRun(out=folder, name="run", preset="light", capture=())
    watched = jax.jit(step)
    for function in (bare, watched, watched):
        function(value)
    pairs = harness.pairs(lambda: calls_of(bare), lambda: calls_of(watched), count=20)
    standalone.close()
    shutil.rmtree(folder)
    extra = [after - before for before, after in pairs]
    return Row(
        "call of a compiled function that does not train", "us", harness.spread(extra), Limit(2.0), values=tuple(extra)
    )


if __name__ == "__main__":
    watched_epochs.answer(Training().compiled, *sys.argv[1:])
