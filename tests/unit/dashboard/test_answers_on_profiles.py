"""Profiles page: requests, recorded windows, operators, Python functions, differences, trace."""

from __future__ import annotations

import gzip
import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import malicious_inputs
import page_runs
import pytest
from starlette.testclient import TestClient

from leadline.analysis.call_tree import is_own
from leadline.dashboard.pages import profiles as view
from leadline.dashboard.requested_profiles import requested_profiles
from leadline.reader.run import Run
from leadline.records.profile_window import ProfileWindow
from leadline.records.request import Answer, Profile
from leadline.store import layout
from leadline.store.control import acknowledge, write_request
from leadline.store.documents import write_document
from leadline.testing.runs import SECOND_NS, START_NS, DetailedProfile, RunWriter

Open = Callable[..., TestClient]
PAGE = {"accept": "text/html"}


@pytest.fixture
def client(tmp_path: Path, open_dashboard: Open) -> TestClient:
    page_runs.write_full_run(tmp_path / "story")
    return open_dashboard(tmp_path)


def page(client: TestClient, part: str, **query: Any) -> str:
    answer = client.get("/runs/story/profiles", params={"view": part, **query}, headers=PAGE)
    assert answer.status_code == 200
    return html.unescape(answer.text)


def cells(text: str, table: str) -> list[list[str]]:
    found = re.search(rf'<table[^>]*id="{table}".*?<tbody>(.*?)</tbody>', text, re.S)
    assert found is not None, f"no table {table}"
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.S) for row in found[1].split("</tr>")[:-1]]
    return [[re.sub(r"<[^>]+>", "", cell).strip() for cell in row] for row in rows]


def ask(path: Path, number: int, window: ProfileWindow, *outcomes: str) -> None:
    request = Profile(f"{number:020d}-a", by="user", windows=(window,))
    write_request(str(path), request)
    for worker, outcome in enumerate(outcomes):
        acknowledge(str(path), request.id, f"rank{worker}-1", 4, Answer.parse(outcome))


def test_profile_requests_show_their_state(client: TestClient, tmp_path: Path) -> None:
    story = tmp_path / "story"
    window = ProfileWindow("detailed", step=3, id="detailed-3")
    ask(story, 1, window, "recorded: 12 bytes")
    ask(story, 2, replace(window, id="late"), "refused: the training had ended", "refused: it is compiled")
    ask(story, 3, replace(window, id="soon"), "taken", "refused: it is compiled")
    ask(story, 4, replace(window, id="alone"))
    states = {each.window: each.state for each in requested_profiles(Run(str(story)))}
    assert states == {"detailed-3": "recorded", "late": "refused", "soon": "taken", "alone": "waiting"}
    text = page(client, "windows")
    windows = re.findall(r'<tr><td title="([^"]*)">', text)
    told = {window: row[2:] for window, row in zip(windows, cells(text, "requests-table"), strict=True)}
    assert told["late"][0] == "refused"
    assert "the training had ended" in told["late"][1]
    assert told["alone"][0] == "not applied"
    off = Profile(f"{5:020d}-a", by="user", off=True)
    write_request(str(story), off)
    acknowledge(str(story), off.id, "rank0-1", 5, Answer.parse("taken: 1 window ended"))
    ask(story, 6, replace(window, id="later"), "taken")
    states = {asked.window: asked.state for asked in requested_profiles(Run(str(story)))}
    assert (states["soon"], states["later"], states["detailed-3"]) == ("cancelled", "taken", "recorded")
    assert "cancelled" in [row[2] for row in cells(page(client, "windows"), "requests-table")]


def test_choices_name_windows_by_steps_and_kind() -> None:
    window = {"id": "detailed-40", "kind": "detailed", "part": "loop", "first_step": 40, "end_step": 42, "steps": 2}
    again = {**window, "id": "detailed-41"}
    start = {**window, "id": "cprofile-start", "kind": "cprofile", "part": "start", "first_step": 0, "end_step": 1}
    assert view.window_labels([window, window, again, start]) == {
        "detailed-40": "steps 40 to 41 (operators)",
        "detailed-41": "steps 40 to 41 (operators), detailed-41",
        "cprofile-start": "start of process (Python functions, every call)",
    }


def test_an_invalid_request_does_not_hide_the_others(client: TestClient, tmp_path: Path) -> None:
    story = tmp_path / "story"

    def give(name: str, windows: object) -> None:
        document = {"id": name, "kind": "profile", "parameters": {"windows": windows}}
        write_document(str(story / layout.request(name)), document)

    for place, given in enumerate([7, {"kind": 5}, None, {"kind": "detailed", "step": "x"}]):
        give(f"{place:020d}-b", [given])
    give(f"{9:020d}-b", 5)
    ask(story, 10, ProfileWindow("detailed", step=3, id="good"))
    told = [row[0] for row in cells(page(client, "windows"), "requests-table")]
    assert told == ["invalid request"] * 5 + ["detailed from step 3, 1 step"]


def test_operators_are_grouped_as_requested(client: TestClient, tmp_path: Path) -> None:
    rows = cells(page(client, "operators", window="detailed-3", by=["operator"]), "operators-table")
    assert [row[:4] for row in rows] == [["aten::conv", "1", "4 ms", "4 ms"], ["aten::relu", "1", "1 ms", "1 ms"]]
    assert rows[0][4] == "80 %"
    only = cells(page(client, "operators", window="detailed-6", by=["operator", "step"]), "operators-table")
    assert [row[:2] for row in only] == [["aten::conv", "6"]]


def test_the_latest_window_is_shown_first_and_module_filters_are_literal(client: TestClient) -> None:
    assert [row[2] for row in cells(page(client, "operators"), "operators-table")] == ["aten::conv"]
    assert cells(page(client, "operators", module="*(["), "operators-table") == []


def test_long_tables_are_truncated_with_a_note(tmp_path: Path, open_dashboard: Open) -> None:
    calls = [(f"aten::op{number}", float(number), 0.5) for number in range(350)]
    RunWriter(tmp_path / "story").write_all([DetailedProfile("d", 0, START_NS, calls, step_ms=400)]).end()
    text = page(open_dashboard(tmp_path), "operators")
    assert len(cells(text, "operators-table")) == 200
    assert "350 rows; showing the first 200" in text


def test_differences_between_two_windows_are_per_step(client: TestClient) -> None:
    rows = cells(page(client, "difference", before="detailed-3", after="detailed-6"), "difference-table")
    assert [row[2:] for row in rows] == [
        ["aten::conv", "4 ms", "9 ms", "+5 ms", "2.25"],
        ["aten::relu", "1 ms", "0 s", "-1 ms", "0"],
    ]


def test_one_window_cannot_be_compared(tmp_path: Path, open_dashboard: Open) -> None:
    RunWriter(tmp_path / "story").write_all([DetailedProfile("d", 0, START_NS, [("a", 0.0, 1.0)])]).end()
    assert "There is only one window of this type" in page(open_dashboard(tmp_path), "difference")


@pytest.mark.parametrize("kind", ["cprofile", "pyinstrument"])
def test_python_functions_their_callers_and_the_call_tree(kind: str, client: TestClient, tmp_path: Path) -> None:
    page_runs.write_python_window(tmp_path / "story", kind, "brew_coffee")
    profiler = "cprofile:total" if kind == "cprofile" else kind
    text = page(client, "python", profiler=profiler, words="BREW")
    (row,) = cells(text, "functions-table")
    assert row[0].endswith("brew_coffee")
    number, unit = row[-1].split()
    assert unit == "ms"
    assert float(number) > 30
    profile = Run(str(tmp_path / "story")).python_profile(kind=kind)
    files = profile.top("own", None)["file"].to_pylist()
    count = sum(not is_own(file) for file in files)
    assert len(cells(page(client, "python", profiler=profiler), "functions-table")) == count
    assert "Callers of" in page(client, "python", profiler=profiler, function="brew_coffee")
    assert (
        cells(page(client, "python", profiler=profiler, phase="backward"), "functions-table") == []
        if (kind == "cprofile")
        else "no Python profile matches" in page(client, "python", profiler=profiler, phase="backward")
    )
    if kind == "pyinstrument":
        flame = client.get("/runs/story/charts/call_tree.json").json()
        assert "brew_coffee" in flame["data"][0]["labels"]


def test_calls_of_a_window_are_bars_at_their_times(client: TestClient) -> None:
    figure = client.get("/runs/story/charts/window_timeline.json?window=detailed-3").json()
    assert sum(len(each["text"]) for each in figure["data"]) == 2
    assert figure["layout"]["xaxis"]["title"]["text"].endswith("(ms)")


@pytest.mark.parametrize("part", ["operators", "python", "loading", "memory", "horovod", "difference", "windows", "?"])
def test_a_run_without_windows_shows_how_to_record_one(part: str, tmp_path: Path, open_dashboard: Open) -> None:
    RunWriter(tmp_path / "story").end()
    text = page(open_dashboard(tmp_path), part)
    assert re.search("leadline (profile|run)|After an out-of-memory error", text)


def tabs(text: str) -> set[str]:
    return set(re.findall(r'<a class="button small" href="\?view=(\w+)"', text))


def test_out_of_memory_is_shown_by_category_and_module(client: TestClient, tmp_path: Path) -> None:
    assert tabs(page(client, "windows")) == {"windows", "operators", "python", "loading", "difference"}
    path = tmp_path / "story" / layout.out_of_memory("rank0-1", 1)
    write_document(
        str(path),
        {
            "step": 4,
            "time_ns": START_NS,
            "worker": "rank0-1",
            "error": f"CUDA out of memory {malicious_inputs.MARKUP}",
            "categories": {"parameters": 4_000_000, "gradients": 4_000_000},
            "other_bytes": None,
            "devices": [],
            "modules": [{"module": "layer1", "bytes": 8_000_000}],
        },
    )
    text = client.get("/runs/story/profiles?view=memory", headers=PAGE).text
    page_runs.expect_text_only(text)
    assert "layer1" in text
    assert "4.0 MB" in text
    assert "not available" in text
    assert "memory" in tabs(page(client, "windows"))


def test_horovod_activities_are_summed(client: TestClient, tmp_path: Path) -> None:
    folder = tmp_path / "story" / layout.horovod("rank0-1")
    folder.mkdir(parents=True)
    events = [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "conv1"}},
        {"ph": "B", "name": "ALLREDUCE", "ts": 10, "pid": 1},
        {"ph": "E", "ts": 2010, "pid": 1},
    ]
    (folder / layout.horovod_copy(1)).write_text("[\n" + ",\n".join(map(json.dumps, events)) + ",\n")
    assert "horovod" in tabs(page(client, "windows"))
    assert cells(page(client, "horovod"), "horovod-table") == [["conv1", "ALLREDUCE", "1", "2 ms", "2 ms"]]


def test_the_trace_of_an_interval_contains_that_interval(client: TestClient) -> None:
    whole = client.get("/runs/story/export/perfetto.json.gz")
    assert whole.headers["content-disposition"] == 'attachment; filename="leadline-trace.json.gz"'
    names = operators(whole.content)
    assert names == {"aten::conv", "aten::relu"}
    asked = {"start_ns": START_NS + SECOND_NS, "end_ns": START_NS + 2 * SECOND_NS}
    part = client.get("/runs/story/export/perfetto.json.gz", params=asked)
    assert operators(part.content) == {"aten::conv"}
    assert client.get("/runs/nothing/export/perfetto.json.gz").status_code == 404
    assert client.get("/runs/story/export/perfetto.json.gz?start_ns=x").status_code == 400


def operators(trace: bytes) -> set[str]:
    events = json.loads(gzip.decompress(trace))["traceEvents"]
    return {each["name"] for each in events if each["name"].startswith("aten::")}


def test_malicious_names_are_text(tmp_path: Path, open_dashboard: Open) -> None:
    page_runs.write_malicious_run(tmp_path / "story")
    client = open_dashboard(tmp_path)
    for kind in ("cprofile", "pyinstrument"):
        page_runs.write_python_window(tmp_path / "story", kind, malicious_inputs.MARKUP)
        text = client.get(f"/runs/story/profiles?view=python&profiler={kind}", headers=PAGE).text
        page_runs.expect_text_only(text)
    for part in ("windows", "operators", "difference"):
        page_runs.expect_text_only(client.get(f"/runs/story/profiles?view={part}", headers=PAGE).text)
    assert len(cells(page(client, "operators", by="operator"), "operators-table")) == len(malicious_inputs.NAMES)
    for name in ("call_tree", "window_timeline"):
        assert "<script" not in client.get(f"/runs/story/charts/{name}.json").text


def test_functions_of_an_interval_and_after_a_mode_change(client: TestClient, tmp_path: Path) -> None:
    story = tmp_path / "story"
    for place, (mode, name) in enumerate([("eval", "eval_probe"), ("train", "first_probe"), ("train", "second_probe")]):
        page_runs.write_python_window(story, "cprofile", name, step=place, mode=mode)
    every = {"profiler": "cprofile:total", "words": "probe"}
    names = [row[0].split(".")[-1] for row in cells(page(client, "python", **every), "functions-table")]
    assert sorted(names) == ["eval_probe", "first_probe", "second_probe"]
    after = cells(page(client, "python", **every, between="eval:train"), "functions-table")
    assert [row[0].split(".")[-1] for row in after] == ["first_probe"]
    time = {"start_ns": START_NS + 2 * SECOND_NS, "end_ns": START_NS + 3 * SECOND_NS}
    text = page(client, "python", **every, **time)
    assert [row[0].split(".")[-1] for row in cells(text, "functions-table")] == ["second_probe"]
    assert "Restricted to the interval from" in text


def test_data_loader_events_are_summed_and_drawn_as_tracks(client: TestClient, tmp_path: Path) -> None:
    ms = SECOND_NS // 1000
    page_runs.write_loading_window(
        tmp_path / "story",
        [
            {"event": "wait", "step": 2, "start_ns": START_NS, "duration_ns": 4 * ms, "ready": 0},
            {"event": "fetch", "worker_id": 1, "start_ns": START_NS, "duration_ns": 3 * ms, "batch_size": 16},
            {"event": "fetch", "worker_id": 1, "start_ns": START_NS + 5 * ms, "duration_ns": 2 * ms, "batch_size": 16},
        ],
    )
    text = page(client, "loading")
    assert [row[2:] for row in cells(text, "loading-sums")] == [
        ["1", "2", "5 ms", "3 ms"],
        ["main process", "1", "4 ms", "4 ms"],
    ]
    assert [row[0] for row in cells(text, "loading-events")] == [
        "training waited for a batch",
        "batch loaded",
        "batch loaded",
    ]
    figure = client.get("/runs/story/charts/data_loading.json?window=dataloader-2").json()
    assert [each["name"] for each in figure["data"]] == ["loader worker 1 loads batches", "training waits for a batch"]


@pytest.mark.parametrize(
    ("first", "end", "steps", "expected"),
    [
        (24, 24, 2, "2 eval steps after 23"),
        (24, 25, 1, "24"),
        (24, 25, 2, "24, 1 eval step"),
        (24, 26, 2, "24 to 25"),
        (0, 0, 1, "1 eval step after 0"),
    ],
)
def test_a_window_names_the_steps_that_it_has(first: int, end: int, steps: int, expected: str) -> None:
    window = {"part": "loop", "first_step": first, "end_step": end, "steps": steps}
    assert view.window_place(window) == expected
