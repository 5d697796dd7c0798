"""Overhead and throttling: the same number and text in every view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.agent.summary import RunOutcome, summary_lines
from leadline.analysis.overview import cost_of
from leadline.records.formatting import share
from leadline.records.overhead import format_share, format_throttling, step_share, throttled
from leadline.store import layout
from leadline.store.documents import make_folder, write_document
from leadline.testing.runs import RunWriter
from leadline.training.session.run_html import verdict_html


def entry(collection: str | None = "gradients", **changes: Any) -> dict[str, Any]:
    return {
        "collection": collection,
        "regexes": [],
        "statistics": ["l2"],
        "raw": False,
        "mode": "train",
        "sources": ["preset"],
        "from_every": 50,
        "to_every": 200,
        "from_seconds": None,
        "to_seconds": None,
        "start": 0,
        "end": None,
        "since_step": 151,
        "until_step": None,
        **changes,
    }


def test_the_share_is_of_all_workers_together() -> None:
    assert step_share([{"own_ns": 1, "loop_ns": 100}, {"own_ns": 5, "loop_ns": 100}]) == 0.03
    assert step_share([{"own_ns": None, "loop_ns": 0}, {}]) is None
    assert step_share([]) is None


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.0, "0.0 %"), (0.0004, "under 0.1 %"), (0.0071, "0.7 %"), (0.437, "44 %")]
)
def test_all_views_use_the_same_format(ratio: float, text: str) -> None:
    assert format_share(ratio) == share(ratio) == text


def test_the_longest_interval_of_all_workers_is_reported() -> None:
    workers = [{"thinned": [entry(to_every=100)]}, {"thinned": [entry(to_every=400)]}, {"thinned": []}, {}]
    assert throttled(workers) == [entry(to_every=400)]


@pytest.mark.parametrize(
    ("entries", "texts"),
    [
        ([], []),
        ([entry(), entry("weights")], ["gradients, weights every 200 steps instead of 50"]),
        ([entry(raw=True)], ["raw gradients every 200 steps instead of 50"]),
        ([entry("layers", mode="eval")], ["layers every 200 steps of eval instead of 50"]),
        ([entry(None)], ["tensors by name every 200 steps instead of 50"]),
        ([entry(to_every=50, until_step=900)], []),
        (
            [entry(from_every=None, to_every=None, from_seconds=2.0, to_seconds=8.0)],
            ["gradients every 8 s instead of 2"],
        ),
    ],
)
def test_throttling_is_formatted(entries: list[dict[str, Any]], texts: list[str]) -> None:
    assert format_throttling(entries) == texts


def test_every_view_has_the_same_number(tmp_path: Path) -> None:
    documents = {
        "rank0-1": {
            "worker": "rank0-1",
            "steps": {"train": 9},
            "own_ns": 70,
            "loop_ns": 10_000,
            "thinned": [entry()],
        },
        "rank1-2": {"worker": "rank1-2", "steps": {"train": 9}, "own_ns": 50, "loop_ns": 10_000, "thinned": []},
    }
    writer = RunWriter(tmp_path / "run")
    make_folder(str(tmp_path / "run" / layout.WORKERS))
    for name, document in documents.items():
        write_document(str(tmp_path / "run" / layout.worker_document(name)), document)
    workers = list(documents.values())
    cost = cost_of(writer.path, workers)
    assert (cost["step_share"], cost["thinned"]) == (0.006, [entry()])
    ending = RunOutcome("Completed", 0, 0, None, 1.0, tuple(workers), 10, None, False)
    text = "\n".join(summary_lines(ending, width=100))
    assert "Overhead: 0.6 % of step time, " in text
    assert "leadline  throttled to stay within the overhead budget: gradients every 200 steps instead of 50" in text
    html = verdict_html(writer.path)
    assert "overhead 0.6 % of the step time; throttled: gradients every 200 steps instead of 50" in html
