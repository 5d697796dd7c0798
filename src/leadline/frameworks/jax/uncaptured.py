"""Ways to train with JAX that are not captured."""

from __future__ import annotations

from typing import Final

AHEAD_OF_TIME: Final = "calls of a function that was compiled ahead of time are not captured; call it itself"
TRACED_ALONE: Final = (
    "they are computed in jax.pmap of JAX before 0.9.1, or in a loop such as lax.scan that is not within jax.jit; put "
    "the step within jax.jit"
)
