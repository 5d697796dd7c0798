"""Stories: what happened in a synthetic run, drawn by hypothesis, to be written in any cut."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

from leadline.records.series import TensorInfo
from leadline.testing.runs import SECOND_NS, START_NS, Capture, Heartbeat, Part, Raw

NUMBERS = st.sampled_from([0.0, 1e-12, 1e-8, 0.5, 0.999, 1.0, 1.06, 20.0, -1.0, float("nan"), float("inf")])
COUNTS = st.sampled_from([0.0, 0.0, 0.0, 1.0, 3.0])


SHARES = st.sampled_from([0.0, 0.009, 0.01, 0.5, 0.51, 1.0, 1.0, float("nan")])


@st.composite
def scenarios(draw: st.DrawFn, *, is_rich: bool = False) -> list[Part]:
    """A run of one or two workers: losses every step, gradients and weights now and then, pauses, eval steps.

    Args:
        is_rich: With what rules for special purposes need as well: activations, labels, images, tokens, norms.
    """
    workers = draw(st.sampled_from([("rank0-1",), ("rank0-1", "rank1-2")]))
    every = draw(st.integers(1, 4))
    time_ns = START_NS
    parts: list[Part] = []
    mode_steps = {"train": 0, "eval": 0}
    for step in range(draw(st.integers(0, 14))):
        time_ns += draw(st.sampled_from([SECOND_NS // 10, SECOND_NS, 5 * SECOND_NS]))
        mode = "eval" if draw(st.integers(0, 4)) == 0 else "train"
        for worker in workers:
            stamp: dict[str, Any] = {
                "worker": worker,
                "mode": mode,
                "mode_step": mode_steps[mode],
                "time_ns": time_ns,
            }
            parts += _step(draw, step, stamp, has_tensors=step % every == 0)
            if is_rich:
                parts += _numbers(draw, step, stamp)
                parts += _activations(draw, step, stamp) if step % every == 0 else []
        mode_steps[mode] += 1
        parts.append(Heartbeat(time_ns + SECOND_NS // 20))
    parts.append(Heartbeat(time_ns + draw(st.integers(0, 6)) * SECOND_NS))
    return parts


def _step(draw: Any, step: int, stamp: dict[str, Any], *, has_tensors: bool) -> list[Part]:
    parts: list[Part] = [Capture(step, {"loss": {"value": draw(NUMBERS)}}, **stamp)]
    worker, mode = stamp["worker"], stamp["mode"]
    if has_tensors and mode == "train":
        bad = draw(COUNTS)
        gradients = {"abs_mean": draw(NUMBERS), "nonfinite_count": bad, "nan_count": min(bad, draw(COUNTS))}
        parts.append(Capture(step, {"gradient/a.weight": gradients, "gradient/b.bias": {"abs_mean": 0.1}}, **stamp))
        parts.append(Capture(step, {"a.weight": {"update_ratio": draw(NUMBERS), "l2": draw(NUMBERS)}}, **stamp))
        parts.append(float_tensors(step, {"a.weight": [1.0, draw(st.sampled_from([1.0, 2.0, 1e3]))]}, worker, mode))
    return parts


NORMS = ("gradient_norm", "gradient_norm_before_clipping", "gradient_clipped")


def _numbers(draw: Any, step: int, stamp: dict[str, Any]) -> list[Part]:
    """Norms of all gradients, and statistics of tensors that rules compare with bounds or their past."""
    if stamp["mode"] != "train":
        return []
    is_clipped = draw(st.sampled_from([None, 0.0, 1.0, 1.0]))
    values = [draw(st.sampled_from([1.0, 1000.0, 1001.0, float("nan")])), 1e4, is_clipped]
    norms = {name: {"value": value} for name, value in zip(NORMS, values, strict=True) if value is not None}
    infos = {name: TensorInfo(name, ("gradient_norms", "scalars")) for name in norms}
    statistics = ("variance", "p5", "p95", "mean")
    tensor = {each: draw(NUMBERS) for each in statistics} | {
        each: draw(SHARES) for each in ("zero_ratio", "close_1e-05_1e-08")
    }
    inputs = {f"act{index}.relu_input_0": {"variance": draw(NUMBERS)} for index in range(draw(st.integers(0, 2)))}
    return [
        Capture(step, norms, infos=infos, **stamp),
        Capture(step, {"gradient/c.weight": tensor, **inputs}, **stamp),
    ]


def _activations(draw: Any, step: int, stamp: dict[str, Any]) -> list[Part]:
    """What modules and loss calls take and give: arrays beside a row that names their tensors."""
    units = st.lists(SHARES, min_size=2, max_size=3)
    counts = st.lists(st.sampled_from([0.0, 1.0, 2.0, 30.0]), min_size=2, max_size=3)
    found: dict[str, tuple[tuple[str, ...], tuple[int, ...], dict[str, list[Any]]]] = {
        "a.relu_output_0": (("layers", "relu_output"), (8, 3), {"unit_activity": draw(units)}),
        "a.tanh_input_0": (("layers", "tanh_input"), (8, 3), {"unit_within_-9.4999_9.4999": draw(units)}),
        "Net_input_0": (
            ("inputs", "layers"),
            (draw(st.sampled_from([0, 3, 200])), 2, 4, 4),
            {
                "unit_mean": [draw(NUMBERS), draw(NUMBERS)],
            },
        ),
        "labels": (
            ("labels", "layers"),
            (8,),
            {
                "class_counts": draw(counts),
                "confusion": [[draw(COUNTS) for _ in range(2)] for _ in range(2)],
            },
        ),
    }
    chosen = {name: each for name, each in found.items() if draw(st.integers(0, 3))}
    tokens = {"emb.embedding_input_0": {"equals_0": draw(SHARES)}}
    row = {name: {"abs_max": 1.0} for name in chosen} | tokens
    infos = {name: TensorInfo(name, collections, shape) for name, (collections, shape, _) in chosen.items()}
    vectors = {
        f"{name}@{statistic}": values for name, (_, _, each) in chosen.items() for statistic, values in each.items()
    }
    arrays = [arrays_of(step, vectors, stamp["worker"], stamp["mode"])] if vectors else []
    return [Capture(step, row, infos=infos, **stamp), *arrays]


def arrays_of(step: int, arrays: dict[str, list[Any]], worker: str = "rank0-1", mode: str = "train") -> Raw:
    """Arrays of float64, of one or two dimensions; statistics that are arrays are named ``tensor@statistic``."""
    stored = {}
    for name, rows in arrays.items():
        is_matrix = bool(rows) and isinstance(rows[0], list)
        shape = (len(rows), len(rows[0])) if is_matrix else (len(rows),)
        flat = [each for row in rows for each in row] if is_matrix else rows
        stored[name] = ("F64", shape, struct.pack(f"<{len(flat)}d", *flat))
    return Raw(step, stored, worker, mode)


def float_tensors(step: int, tensors: dict[str, list[float]], worker: str = "rank0-1", mode: str = "train") -> Raw:
    """Tensors of float32, one-dimensional."""
    stored = {
        name: ("F32", (len(values),), struct.pack(f"<{len(values)}f", *values)) for name, values in tensors.items()
    }
    return Raw(step, stored, worker, mode)
