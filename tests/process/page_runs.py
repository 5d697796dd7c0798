"""Runs for page tests: one with all kinds of data, one with malicious names."""

from __future__ import annotations

import time
from pathlib import Path
from types import CodeType
from typing import Any

import malicious_inputs
import numpy as np

from leadline.records.finding import Finding
from leadline.records.manifest import RuleSpec
from leadline.records.series import TensorInfo
from leadline.store import layout
from leadline.store.codec import LOADING, BatchEncoder, int64_buffer
from leadline.store.documents import make_folder, write_document
from leadline.store.segments import Segment
from leadline.testing.runs import SECOND_NS, START_NS, ArrayStatistics, Capture, DetailedProfile, RawTensors, RunWriter
from leadline.training.profiler.python_recording import (
    FunctionProfiler,
    ProfileSlice,
    StackProfiler,
    write_callstacks,
    write_functions,
)

WEIGHT = np.arange(6, dtype="<f4").reshape(2, 3) / 4
WORKER = "rank0-1"


def write_full_run(path: Path) -> RunWriter:
    """Write ten steps of two layers with a vanishing gradient in the first, and a fired rule."""
    writer = RunWriter(
        path,
        rules=(RuleSpec("mine", "vanishing_gradient", {"threshold": 0.5}),),
        shapes={"gradient/a.weight": (2, 3), "gradient/b.weight": (2, 3), "a.weight": (2, 3)},
    )
    for step in range(10):
        writer.write(
            Capture(
                step,
                {
                    "loss": {"value": 1.0 / (step + 1)},
                    "gradient/a.weight": {"abs_mean": 1e-9 * (step + 1), "l2": float("nan") if step == 7 else 2.0},
                    "gradient/b.weight": {"abs_mean": 0.25, "l2": 1.0},
                },
            )
        )
    for step in (0, 5):
        writer.write(RawTensors(step, {"a.weight": ("F32", (2, 3), (WEIGHT + step).astype("<f4").tobytes())}))
        counts = [-1.0, 1.0, *([0.0] * 29), 6.0]
        writer.write(ArrayStatistics(step, {"gradient/a.weight": {"histogram": counts}}))
    writer.write(DetailedProfile("detailed-3", 3, START_NS, [("aten::conv", 0.0, 4.0), ("aten::relu", 5.0, 1.0)]))
    writer.write(DetailedProfile("detailed-6", 6, START_NS + SECOND_NS, [("aten::conv", 0.0, 9.0)]))
    writer.end()
    malicious_inputs.write_rule(
        str(path),
        "mine",
        rule="vanishing_gradient",
        verdict="fired",
        parameters={"threshold": 0.5},
        findings=[finding("mine", "gradient/a.weight vanishes", ("gradient/a.weight",))],
    )
    malicious_inputs.write_rule(str(path), "overfit", verdict="undecided", why="no evaluation was seen")
    return writer


def finding(rule: str, message: str, tensors: tuple[str, ...] = (), number: int = 1) -> Finding:
    return Finding(
        id=number,
        rule=rule,
        step=5,
        last_step=7,
        is_open=False,
        time_ns=START_NS + SECOND_NS,
        message=message,
        suggestion="a smaller rate",
        tensors=tensors,
        tensor_count=len(tensors) + 4,
        worker=WORKER,
        evidence={"abs_mean": 6e-9, "limits": [1, 2]},
        count=3,
    )


def write_malicious_run(path: Path) -> RunWriter:
    """Write a run in which all names are malicious."""
    writer = RunWriter(
        path, rules=(RuleSpec("bad", malicious_inputs.MARKUP, {malicious_inputs.QUOTED: malicious_inputs.MARKUP}),)
    )
    infos = {
        name: TensorInfo(name, ("weights", f"{malicious_inputs.MARKUP} {place}"), (2, 3), malicious_inputs.MARKUP)
        for place, name in enumerate(malicious_inputs.NAMES)
    }
    for step in range(3):
        values: dict[str, dict[str, float]] = {name: {"l2": 1.0, "max": 2.0} for name in malicious_inputs.NAMES}
        writer.write(Capture(step, values, infos=infos))
        writer.write(Capture(step, {f"loss {name}"[:200]: {"value": 1.0} for name in malicious_inputs.NAMES}))
        raw = {name: ("F32", (2, 3), WEIGHT.tobytes()) for name in malicious_inputs.NAMES if "\u202e" not in name}
        writer.write(RawTensors(step, raw))
    calls = [(name, float(place), 0.9) for place, name in enumerate(malicious_inputs.NAMES)]
    writer.write(DetailedProfile("detailed-1", 1, START_NS, calls, worker=WORKER))
    writer.end()
    findings = [
        finding("bad", name, malicious_inputs.NAMES, place + 1) for place, name in enumerate(malicious_inputs.NAMES)
    ]
    malicious_inputs.write_rule(
        str(path),
        "bad",
        rule=malicious_inputs.MARKUP,
        verdict="fired",
        parameters={malicious_inputs.QUOTED: malicious_inputs.MARKUP},
        findings=findings,
    )
    malicious_inputs.write_rule(str(path), "<b>wrong", verdict="undecided", why=malicious_inputs.MARKUP)
    return writer


def write_python_window(path: Path, kind: str, name: str = "work", *, step: int = 4, mode: str = "train") -> None:
    """Record a function of a given name with cProfile or pyinstrument, as a job does."""
    folder = path / layout.profile(WORKER, f"{kind}-{step}")
    make_folder(str(folder))
    profiler: Any
    if kind == "cprofile":
        profiler = FunctionProfiler("total")
    else:
        import pyinstrument

        profiler = StackProfiler(pyinstrument)
    profiler.start()
    _named(name)()
    profiler.stop()
    begin_ns = START_NS + (step % 4) * SECOND_NS
    part = ProfileSlice(step, mode, "forward", begin_ns, begin_ns + SECOND_NS // 20, profiler)
    files = (write_functions if kind == "cprofile" else write_callstacks)(str(folder), [part])
    document = {
        "id": f"{kind}-{step}",
        "kind": kind,
        "timer": "total",
        "part": "loop",
        "first_step": step,
        "end_step": step + 1,
        "start_ns": part.start_ns,
        "end_ns": part.end_ns,
        "bytes": 10,
        "notes": [],
        "files": list(files),
    }
    write_document(str(folder / layout.WINDOW), document)


def write_loading_window(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write a data loader profile window; missing fields are -1."""
    folder = path / layout.profile(WORKER, "dataloader-2")
    make_folder(str(folder))
    segment = Segment(str(folder / layout.LOADING), BatchEncoder(LOADING, {}))
    columns = {
        name: int64_buffer([row.get(name, -1) for row in rows]) if kind == "int64" else [row[name] for row in rows]
        for name, kind in LOADING.columns
    }
    segment.append(0, len(rows), columns)
    segment.close()
    document = {
        "id": "dataloader-2",
        "kind": "dataloader",
        "timer": "total",
        "part": "loop",
        "first_step": 2,
        "end_step": 3,
        "start_ns": START_NS,
        "end_ns": START_NS + SECOND_NS,
        "bytes": 10,
        "notes": [],
        "files": [layout.LOADING],
    }
    write_document(str(folder / layout.WINDOW), document)


def _named(name: str) -> Any:
    def work() -> int:
        until, count = time.perf_counter() + 0.05, 0
        while time.perf_counter() < until:
            count += 1
        return count

    code: CodeType = work.__code__.replace(co_name=name, co_qualname=name)
    work.__code__ = code
    return work


def expect_text_only(page: str) -> None:
    """Assert that malicious names added neither elements nor attributes to the page."""
    from html.parser import HTMLParser

    class Reader(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.wrong: list[str] = []
            self.scripts = 0

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            names = [name for name, _ in attrs]
            self.scripts += tag == "script"
            if tag == "script" and not dict(attrs).get("src", ""):
                self.wrong.append(f"a script within the page: {attrs}")
            self.wrong += [f"{tag} has {name}" for name in names if name.startswith("on") or name == "style"]
            if tag == "img":
                self.wrong.append("an image")

    reader = Reader()
    reader.feed(page)
    assert reader.wrong == []
    assert "49" not in _text_around(page, "{{"), "a template in a name was evaluated"


def _text_around(page: str, mark: str) -> str:
    place = page.find(mark)
    return page[max(0, place - 20) : place + 20] if place >= 0 else ""
