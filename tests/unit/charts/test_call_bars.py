"""Timeline of the operator calls of a profile window."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from leadline.charts.profiles import window
from leadline.profiles.queries import CALLS

MS = 1_000_000


def row(name: str, begin_ms: float, length_ms: float, *, device: str = "cpu", thread: int = 1) -> dict[str, Any]:
    return {
        "worker": "w",
        "window": "d",
        "step": 3,
        "mode": "train",
        "phase": "forward",
        "operator": name,
        "module": "m",
        "device": device,
        "start_ns": 5 * MS + round(begin_ms * MS),
        "total_ns": round(length_ms * MS),
        "own_ns": round(length_ms * MS),
        "thread": thread,
        "memory_bytes": None,
    }


def bars(rows: list[dict[str, Any]]) -> dict[str, tuple[float, float, int]]:
    found = {}
    for trace in window(pa.Table.from_pylist(rows, CALLS)).data:
        for text, base, length, lane in zip(trace.text, trace.base, trace.x, trace.y, strict=True):
            found[text.split(" in ")[0]] = (round(float(base), 3), round(float(length), 3), lane)
    return found


def test_calls_are_below_their_callers_and_devices_have_own_rows() -> None:
    found = bars(
        [
            row("outer", 0, 10),
            row("inner", 2, 3),
            row("next", 5, 2),
            row("kernel", 3, 4, device="gpu0"),
            row("later", 10, 1),
            row("other", 1, 1, thread=2),
        ]
    )
    assert found == {
        "outer": (0, 10, 0),
        "inner": (2, 3, 1),
        "next": (5, 2, 1),
        "later": (10, 1, 0),
        "other": (1, 1, 2),
        "kernel": (3, 4, 3),
    }


def test_the_longest_calls_are_drawn_and_the_others_counted() -> None:
    fig = window(pa.Table.from_pylist([row(f"op{place}", place, 0.1 + place / 1e4) for place in range(4000)], CALLS))
    texts = [text for trace in fig.data for text in trace.text]
    assert len(texts) == 2500
    assert "op0 in m, step 3" not in texts
    assert any("1,500 more" in each.text for each in fig.layout.annotations)


def test_calls_below_the_maximum_depth_are_counted() -> None:
    nested = [row(f"op{depth}", depth, 100 - 2 * depth) for depth in range(30)]
    fig = window(pa.Table.from_pylist(nested, CALLS))
    assert sum(len(trace.text) for trace in fig.data) == 12
    assert any("18 more" in each.text for each in fig.layout.annotations)
