"""Stories: what happened in a synthetic run, drawn by hypothesis, to be written in any cut."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

from leadline.testing.runs import SECOND_NS, START_NS, Capture, Heartbeat, Part, Raw

NUMBERS = st.sampled_from([0.0, 1e-12, 1e-8, 0.5, 0.999, 1.0, 1.06, 20.0, -1.0, float("nan"), float("inf")])
COUNTS = st.sampled_from([0.0, 0.0, 0.0, 1.0, 3.0])


@st.composite
def stories(draw: st.DrawFn) -> list[Part]:
    """A run of one or two workers: losses every step, gradients and weights now and then, pauses, eval steps."""
    workers = draw(st.sampled_from([("rank0-1",), ("rank0-1", "rank1-2")]))
    every = draw(st.integers(1, 4))
    time_ns = START_NS
    parts: list[Part] = []
    mode_steps = {"train": 0, "eval": 0}
    for step in range(draw(st.integers(0, 14))):
        time_ns += draw(st.sampled_from([SECOND_NS // 10, SECOND_NS, 5 * SECOND_NS]))
        mode = "eval" if draw(st.integers(0, 4)) == 0 else "train"
        for worker in workers:
            parts += _step(draw, step, worker, mode, mode_steps[mode], time_ns, has_tensors=step % every == 0)
        mode_steps[mode] += 1
        parts.append(Heartbeat(time_ns + SECOND_NS // 20))
    parts.append(Heartbeat(time_ns + draw(st.integers(0, 6)) * SECOND_NS))
    return parts


def _step(
    draw: Any, step: int, worker: str, mode: str, mode_step: int, time_ns: int, *, has_tensors: bool
) -> list[Part]:  # fmt: skip
    stamp: dict[str, Any] = {"worker": worker, "mode": mode, "mode_step": mode_step, "time_ns": time_ns}
    parts: list[Part] = [Capture(step, {"loss": {"value": draw(NUMBERS)}}, **stamp)]
    if has_tensors and mode == "train":
        bad = draw(COUNTS)
        gradients = {"abs_mean": draw(NUMBERS), "nonfinite_count": bad, "nan_count": min(bad, draw(COUNTS))}
        parts.append(Capture(step, {"gradient/a.weight": gradients, "gradient/b.bias": {"abs_mean": 0.1}}, **stamp))
        parts.append(Capture(step, {"a.weight": {"update_ratio": draw(NUMBERS), "l2": draw(NUMBERS)}}, **stamp))
        parts.append(float_tensors(step, {"a.weight": [1.0, draw(st.sampled_from([1.0, 2.0, 1e3]))]}, worker, mode))
    return parts


def float_tensors(step: int, tensors: dict[str, list[float]], worker: str = "rank0-1", mode: str = "train") -> Raw:
    """Tensors of float32, one-dimensional."""
    stored = {
        name: ("F32", (len(values),), struct.pack(f"<{len(values)}f", *values)) for name, values in tensors.items()
    }
    return Raw(step, stored, worker, mode)
