"""Run list: contents, order, and updates from disk."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from leadline.analysis.hyperparameters import format_hyperparameter, options_of
from leadline.dashboard.pages.runs import PAGE_ROWS, RunQuery, select
from leadline.dashboard.run_list import RunList, RunRow, shorten_command
from leadline.dashboard.security import Access
from leadline.reader.find_runs import list_runs
from leadline.records.series import TensorInfo
from leadline.store.run_notes import RunNotes, read_notes
from leadline.testing.runs import START_NS, Capture, RunWriter

HOSTILE = "<script>alert(1)</script>"


def write_run(root: Path, name: str, steps: int = 3, *, started_ns: int = START_NS, status: str = "Completed") -> Path:
    writer = RunWriter(str(root / name), started_ns=started_ns)
    writer.write_all([Capture(step, {"loss": {"value": 1.0 / (step + 1)}}) for step in range(steps)])
    writer.end(status) if status != "InProgress" else writer.flush()
    return root / name


def put_rules(run: Path, **statuses: str) -> None:
    rules = [
        {"name": name, "rule": name, "status": status, "findings": int(status == "IssuesFound")}
        for name, status in statuses.items()
    ]
    (run / "rules" / "summary.json").write_text(json.dumps({"rules": rules}))


def fresh(run_list: RunList) -> dict[str, RunRow]:
    """Return the rows, read again from disk."""
    run_list._read_at = float("-inf")
    return {row.name: row for row in run_list.rows()}


def row(name: str, **changes: Any) -> RunRow:
    said = {
        "status": "Completed",
        "is_over": True,
        "started_ns": 0,
        "seconds": 1.0,
        "steps": 1,
        "steps_by_mode": "1 step",
        "outcome": "Completed: 1 step, no problem found (3 rules clear).",
        "level": "clear",
        "word": "ok",
        "ending": "clear",
        "worst": "",
        "fired": (),
        "rules": 0,
        "preset": "standard",
        "command": "python train.py",
        "short_command": "python train.py",
        "loss": "0.5",
        "given": {},
        "notes": RunNotes(),
        "version": 1,
    }
    return RunRow(name=name, **{**said, **changes})


def test_a_row_matches_the_documents(tmp_path: Path) -> None:
    run = write_run(tmp_path, "first", 5)
    put_rules(run, loss_spike="NoIssuesFound", exploding_tensor="IssuesFound", vanishing_gradient="Error")
    (found,) = RunList(str(tmp_path)).rows()
    assert (found.name, found.status, found.is_over) == ("first", "Completed", True)
    assert (found.worst, found.fired, found.rules) == ("IssuesFound", ("exploding_tensor",), 3)
    assert found.command == "python train.py"


def test_a_run_whose_loss_ended_as_nan_has_no_badge_of_success(
    tmp_path: Path, open_dashboard: Callable[..., TestClient]
) -> None:
    for name, loss in (("broken", "NaN"), ("fine", 0.5)):
        writer = RunWriter(tmp_path / name).write_all([Capture(0, {"loss": {"value": float(loss)}})]).end()
        writer.write_worker("rank0-1", state="ended", losses={"loss": loss})
    client, badge = open_dashboard(tmp_path), r'<span class="badge"[^>]*data-status="Completed"[^>]*>'
    pages = {name: client.get(f"/runs/{name}/overview").text for name in ("broken", "fine")}
    assert all('data-level="fatal"' in found for found in re.findall(badge, pages["broken"])) is True
    assert not any('data-level="fatal"' in found for found in re.findall(badge, pages["fine"]))
    for both in (client.get("/").text, client.get("/compare?run=broken&run=fine").text):
        found = re.findall(badge, both)
        assert len(found) == 2
        assert sum('data-level="fatal"' in each for each in found) == 1
    assert client.get("/runs/broken/overview").text.count('data-live="status"') == 1


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ((), ""),
        (("/opt/venv/bin/python", "/home/me/project/train.py", "--lr", "/data/x"), "python train.py --lr /data/x"),
        (("/usr/bin/python", "-m", "torch.distributed.run", "a/ddp.py"), "python -m torch.distributed.run a/ddp.py"),
        (("train",), "train"),
    ],
)
def test_a_command_is_shown_without_the_folders_of_interpreter_and_script(command, shown: str) -> None:
    assert shorten_command(command) == shown


def test_rows_are_those_of_the_terminals_list(tmp_path: Path) -> None:
    for name, status in (("a", "Completed"), ("b", "InProgress"), ("c", "Failed")):
        put_rules(write_run(tmp_path, name, steps=len(name) + 2, status=status), loss_spike="IssuesFound")
    run = write_run(tmp_path, "damaged")
    (run / "manifest.json").write_text('{"name": "to')
    listed = {
        each.name: (each.status, each.started_ns, sum(each.steps.values()), each.preset, len(each.rules))
        for each in list_runs(tmp_path)
    }
    rows = RunList(str(tmp_path)).rows()
    assert {each.name: (each.status, each.started_ns, each.steps, each.preset, each.rules) for each in rows} == listed
    assert {name: row[0] for name, row in listed.items()} == {
        "a": "Completed",
        "b": "InProgress",
        "c": "Failed",
        "damaged": "Damaged",
    }


def test_the_list_follows_the_disk(tmp_path: Path) -> None:
    board = RunList(str(tmp_path))
    assert fresh(board) == {}
    first = write_run(tmp_path, "first", status="InProgress")
    assert fresh(board)["first"].status == "InProgress"
    version = fresh(board)["first"].version
    put_rules(first, loss_spike="IssuesFound")
    assert fresh(board)["first"].worst == "IssuesFound"
    assert fresh(board)["first"].version != version
    RunWriter(str(tmp_path / "second")).end()
    (first / "status.json").write_text(json.dumps({"status": "Failed", "ended_ns": START_NS + 5_000_000_000}))
    assert {name: each.status for name, each in fresh(board).items()} == {"first": "Failed", "second": "Completed"}
    assert fresh(board)["first"].seconds == 5.0
    (first / "status.json").write_text(json.dumps({"status": "Stopped"}))
    assert fresh(board)["first"].status == "Stopped", "one that is over may have been resumed"
    shutil.rmtree(first)
    assert set(fresh(board)) == {"second"}


def test_other_folders_are_not_listed(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    write_run(root, "good")
    for name, text in {
        "torn": '{"name": "to',
        "empty": "",
        "other": "[]",
        "list": '{"started_ns": "yesterday"}',
    }.items():
        (root / name).mkdir()
        (root / name / "manifest.json").write_text(text)
    (root / "folder").mkdir()
    (root / "file").write_text("")
    os.symlink(write_run(tmp_path, "outside"), root / "link")
    listed = {name: (row.status, row.is_over) for name, row in fresh(RunList(str(root))).items()}
    damaged = dict.fromkeys(("torn", "empty", "other", "list"), ("Damaged", True))
    assert listed == {"good": ("Completed", True)} | damaged
    assert RunList(str(tmp_path / "nowhere")).rows() == []


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (RunQuery(), ["c", "b", "a"]),
        (RunQuery(is_reversed=True), ["a", "b", "c"]),
        (RunQuery(sort="name"), ["a", "b", "c"]),
        (RunQuery(sort="steps"), ["b", "c", "a"]),
        (RunQuery(sort="rules"), ["a", "b", "c"]),
        (RunQuery(status="Failed"), ["b"]),
        (RunQuery(worst="IssuesFound"), ["a"]),
        (RunQuery(filter_text="SPIKE train"), ["a"]),
        (RunQuery(filter_text="no problem"), ["c", "b", "a"]),
        (RunQuery(filter_text="absent"), []),
    ],
)
def test_runs_are_filtered_and_sorted(wanted: RunQuery, names: list[str]) -> None:
    rows = [
        row("a", started_ns=1, steps=1, worst="IssuesFound", level="warning", fired=("loss_spike",)),
        row("b", started_ns=2, steps=30, status="Failed", worst="InProgress", level="unknown"),
        row("c", started_ns=3, steps=2, worst="NoIssuesFound"),
    ]
    assert [each.name for each in select(rows, wanted)] == names


def test_an_invalid_query_shows_all_runs(tmp_path: Path, open_dashboard: Callable[..., TestClient]) -> None:
    write_run(tmp_path, "first")
    client = open_dashboard(tmp_path)
    for query in ("?page=-1", "?page=99999999999", "?page=x", "?sort=evil", "?status=evil", "?reversed=1", "?page=7"):
        answer = client.get(f"/{query}", headers={"accept": "text/html"})
        assert answer.status_code == 200
        assert 'href="/runs/first/overview"' in answer.text


def test_links_keep_the_selected_filters() -> None:
    wanted = RunQuery(filter_text='a&b="', status="Failed", sort="steps", page=2)
    assert wanted.link(page=3) == "/?q=a%26b%3D%22&status=Failed&sort=steps&page=3"
    assert wanted.sort_link("steps") == "/?q=a%26b%3D%22&status=Failed&sort=steps&reversed=yes"
    assert RunQuery().sort_link("name") == "/?sort=name"


def test_long_lists_are_paged(tmp_path: Path, open_dashboard: Callable[..., TestClient]) -> None:
    original = write_run(tmp_path, "run-0000")
    for number in range(1, PAGE_ROWS + 20):
        shutil.copytree(original, tmp_path / f"run-{number:04d}")
    client = open_dashboard(tmp_path)
    first = client.get("/?sort=name", headers={"accept": "text/html"}).text
    second = client.get("/?sort=name&page=2", headers={"accept": "text/html"}).text
    assert first.count("data-sparkline=") == PAGE_ROWS
    assert second.count("data-sparkline=") == 20
    assert "page 2 of 2" in second


def test_malicious_names_are_text(tmp_path: Path, open_dashboard: Callable[..., TestClient]) -> None:
    run = write_run(tmp_path, HOSTILE.replace("/", "∕"))
    put_rules(run, **{HOSTILE: "IssuesFound"})
    document = json.loads((run / "manifest.json").read_text())
    document["command"] = ["python", HOSTILE, "😀" * 3000]
    (run / "manifest.json").write_text(json.dumps(document))
    text = open_dashboard(tmp_path).get("/", headers={"accept": "text/html"}).text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert len(text) < 30_000


def test_loss_sparklines_are_numbers(tmp_path: Path, open_dashboard: Callable[..., TestClient]) -> None:
    writer = RunWriter(str(tmp_path / "first"))
    losses = [1.0, 0.5, float("nan"), 0.25]
    writer.write_all([Capture(step, {"loss": {"value": each}}) for step, each in enumerate(losses)]).end()
    write_run(tmp_path, "other")
    client = open_dashboard(tmp_path)
    found = client.get("/sparklines.json", params=[("run", "first"), ("run", "../first"), ("run", "nobody")]).json()
    assert list(found) == ["first"]
    assert [each for each in found["first"]["values"] if each is not None] == [1.0, 0.5, 0.25]


def test_ten_thousand_runs_need_few_system_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents of ended runs are not opened again."""
    original = write_run(tmp_path, "run-0")
    for number in range(1, 30):
        shutil.copytree(original, tmp_path / f"run-{number}")
    board = RunList(str(tmp_path))
    fresh(board)
    opened: list[str] = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest, **more: opened.append(str(path)) or real(path, *rest, **more))
    time.sleep(0.01)
    assert len(fresh(board)) == 30
    assert [each for each in opened if str(tmp_path) in each] == []
    (tmp_path / "run-7" / "status.json").touch()
    fresh(board)
    assert {os.path.relpath(each, tmp_path).split("/")[0] for each in opened if str(tmp_path) in each} == {"run-7"}


def test_a_missing_run_is_named_and_the_nearest_suggested(
    tmp_path: Path, open_dashboard: Callable[..., TestClient]
) -> None:
    write_run(tmp_path, "lr-0.01")
    client = open_dashboard(tmp_path)
    answer = client.get("/runs/lr-0.1/rules", headers={"accept": "text/html"})
    assert answer.status_code == 404
    assert "There is no run named &#39;lr-0.1&#39;" in answer.text
    assert 'href="/runs/lr-0.01/overview">' in answer.text
    assert "did you mean 'lr-0.01'?" in client.get("/runs/lr-0.1/rules").text
    assert "did you mean" not in client.get("/runs/other/rules").text
    assert "Open " not in client.get("/runs/lr-0.01/reports/report.html", headers={"accept": "text/html"}).text


def test_the_navigation_has_the_pages_of_the_run(tmp_path: Path, open_dashboard: Callable[..., TestClient]) -> None:
    write_run(tmp_path, "one")
    several = RunWriter(str(tmp_path / "several"))
    for rank in range(2):
        several.write_worker(f"rank{rank}-{rank + 10}")
    several.end()
    client = open_dashboard(tmp_path)
    assert "/runs/one/ranks" not in client.get("/runs/one/rules").text
    assert "/runs/one/ranks" in client.get("/runs/one/ranks").text
    assert "/runs/several/ranks" in client.get("/runs/several/rules").text
    assert "/runs/several/model" not in client.get("/runs/several/rules").text


def test_hyperparameters_have_columns_by_which_runs_are_sorted(
    tmp_path: Path, open_dashboard: Callable[..., TestClient]
) -> None:
    for name, rate in (("a", "0.01"), ("b", "0.5"), ("c", "1e-3")):
        run = write_run(tmp_path, name)
        document = json.loads((run / "manifest.json").read_text())
        document["command"] = ["python", "train.py", f"--lr={rate}", "--name", "x"]
        (run / "manifest.json").write_text(json.dumps(document))
    optimized = RunWriter(str(tmp_path / "d"))
    infos = {"SGD/momentum": TensorInfo("SGD/momentum", ("hyperparameters",), (), "scalar")}
    for step, momentum in enumerate((0.5, 0.9, 0.0)):
        optimized.write(Capture(step, {"SGD/momentum": {"value": momentum}}, infos=infos))
    optimized.end()
    client = open_dashboard(tmp_path)
    offered = re.findall(r'(?:name="column" value="|<legend>)([^"<]+)', client.get("/columns").text)
    assert offered == ["Hyperparameters that differ", "lr", "Other hyperparameters", "name", "SGD/momentum"]

    def rows(**query: Any) -> list[str]:
        return re.findall(r'<tr id="run-([^"]+)"', client.get("/", params=query).text)

    assert rows(column="lr", sort="value:lr") == ["c", "a", "b", "d"]
    assert rows(column="lr", sort="value:lr", reversed="yes") == ["d", "b", "a", "c"]
    text = client.get("/?column=lr&column=SGD/momentum").text
    cells = re.findall(r'<td class="number">([^<]+)</td>', text[text.index('<tr id="run-d"') :])
    assert cells[-2:] == ["–", "0.9"]
    client.cookies.set("leadline-columns", "lr%2CSGD%2Fmomentum")
    assert 'value="SGD/momentum"' in client.get("/").text


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (("python", "train.py", "--lr", "0.1", "--resume"), {"lr": "0.1"}),
        (("torchrun", "--nproc_per_node", "2", "train.py", "-b", "32", "--shift", "-1"), {"b": "32", "shift": "-1"}),
        (("python", "train.py", "model.depth=3", "a", "--note="), {"model.depth": "3", "note": ""}),
        ((), {}),
    ],
)
def test_options_of_a_command_are_hyperparameters(command: tuple[str, ...], options: dict[str, str]) -> None:
    assert options_of(command) == options


def test_note_and_tags_are_stored_shown_and_searched(
    tmp_path: Path, open_dashboard: Callable[..., TestClient], post_from_page: Callable[..., Any]
) -> None:
    run = write_run(tmp_path, "first")
    write_run(tmp_path, "second")
    client = open_dashboard(tmp_path)
    fields = {"note": f" seems fine {HOSTILE}", "tags": "baseline, paper,, baseline"}
    assert post_from_page(client, "/runs/first/notes", fields).status_code == 204
    assert read_notes(str(run)) == RunNotes(f"seems fine {HOSTILE}", ("baseline", "paper"))
    text = client.get("/runs/first/notes").text
    assert 'value="baseline, paper"' in text
    assert "<script>alert" not in text
    found = client.get("/?q=paper")
    assert re.findall(r'<tr id="run-([^"]+)"', found.text) == ["first"]
    assert "&lt;script&gt;alert(1)" in found.text
    refused = post_from_page(client, "/runs/first/notes", {"tags": "x" * 41})
    assert (refused.status_code, "at most 40 characters" in refused.text) == (400, True)
    assert client.post("/runs/first/notes", data=fields).status_code == 403, "from another site"


def test_an_ended_run_is_deleted_after_its_name_was_entered(
    tmp_path: Path, open_dashboard: Callable[..., TestClient], post_from_page: Callable[..., Any]
) -> None:
    run = write_run(tmp_path, "first")
    client = open_dashboard(tmp_path)
    assert client.get("/runs/first/overview").status_code == 200
    for fields in ({}, {"name": "other"}):
        assert post_from_page(client, "/runs/first/delete", fields).status_code == 400
    assert client.post("/runs/first/delete", data={"name": "first"}).status_code == 403, "from another site"
    assert run.is_dir()
    assert post_from_page(client, "/runs/first/delete", {"name": "first"}).status_code == 204
    assert os.listdir(tmp_path) == []
    assert client.get("/runs/first/overview").status_code == 404


def test_a_running_run_is_not_deleted(
    tmp_path: Path, open_dashboard: Callable[..., TestClient], post_from_page: Callable[..., Any]
) -> None:
    run = write_run(tmp_path, "live", status="InProgress")
    client = open_dashboard(tmp_path)
    assert "stop it first" in client.get("/runs/live/notes").text
    answer = post_from_page(client, "/runs/live/delete", {"name": "live"})
    assert (answer.status_code, "still running" in answer.text) == (400, True)
    assert run.is_dir()


def test_a_read_only_dashboard_changes_no_run(
    tmp_path: Path, open_dashboard: Callable[..., TestClient], post_from_page: Callable[..., Any]
) -> None:
    write_run(tmp_path, "first")
    client = open_dashboard(tmp_path, Access(is_read_only=True))
    assert post_from_page(client, "/runs/first/notes", {"note": "x"}).status_code == 403
    assert post_from_page(client, "/runs/first/delete", {"name": "first"}).status_code == 403
    assert "Delete" not in client.get("/runs/first/notes").text


@pytest.mark.parametrize(("value", "text"), [(1e-8, "1e-8"), (1e6, "1e6"), (0.002, "0.002"), (3.0, "3"), (7, "7")])
def test_hyperparameters_are_written_as_people_write_them(value: float, text: str) -> None:
    assert format_hyperparameter(value) == text
