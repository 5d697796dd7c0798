"""Runs of several nodes: agents join one run, one of them judges, and another takes over when its node dies."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from launching import LEADLINE, PATIENCE, end_all, environment, script, show, wait_for

import leadline
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.store.terms import latest_term

TAKEOVER_SECONDS = 30.0
OPTIONS = (
    *("--no-default-rules", "--rule", f"high={script('steered_rules.py')}:High", "--rule", "exploding_tensor"),
    *("--on", "high=stop_training", "--budget", "off"),
)


def node(folder: Path, name: str, other: str, *options: str) -> subprocess.Popen[str]:
    """Start the agent of a node, as on a machine of its own."""
    words = [*LEADLINE, "run", "--join", "job", "--out", str(folder / "runs"), *options]
    return subprocess.Popen(
        [*words, script("joined.py"), str(folder), name, other],
        cwd=folder,
        env=environment(LEADLINE_NODE_NAME=name, RANK=str(ord(name) - ord("a"))),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def two_nodes(folder: Path) -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
    """Start node a, whose agent becomes the primary one, and then node b; both have recorded steps."""
    folder.mkdir()
    nodes = [node(folder, "a", "b", *OPTIONS)]
    try:
        wait_for(lambda: latest_term(str(folder / "runs" / "job")).node, "the first term")
        nodes.append(node(folder, "b", "a", *OPTIONS))
        workers = folder / "runs" / "job" / layout.WORKERS
        wait_for(lambda: [worker for worker in documents(workers) if worker["steps"].get("train", 0) > 10][1:], "steps")
        yield nodes[0], nodes[1]
    finally:
        for process in nodes:
            if process.poll() is None:
                end_all(process)


def documents(folder: Path) -> list[dict[str, Any]]:
    found = (read_document(str(path)) for path in folder.glob("*.json"))
    return [document for document in found if isinstance(document, dict)]


def stopped_steps(run: Path) -> set[int]:
    """Return the last train step of each worker."""
    return {worker["steps"]["train"] - 1 for worker in documents(run / layout.WORKERS)}


def verdicts(run: Path) -> dict[str, tuple[str, str]]:
    return {rule["name"]: (rule["status"], rule["verdict"]) for rule in show(run)["rules"]}


@pytest.mark.slow
def test_the_judge_of_a_dead_node_is_replaced_and_verdicts_stay_the_same(tmp_path: Path) -> None:
    calm, hurt = tmp_path / "calm", tmp_path / "hurt"
    with two_nodes(calm) as (first, second):
        (calm / "high").touch()
        ends = [process.communicate(timeout=PATIENCE) for process in (first, second)]
    run = calm / "runs" / "job"
    assert [first.returncode, second.returncode] == [10, 10], ends
    assert latest_term(str(run)).number == 1
    assert len(stopped_steps(run)) == 1, "both nodes stop at one step"
    assert show(run)["status"] == "Stopped"
    assert "joined on b" in ends[1][1]
    assert "high  step" in ends[0][1], "the first node tells the findings of the run"
    assert {document["node"] for document in leadline.open_run(run).manifest.nodes} == {"a", "b"}

    with two_nodes(hurt) as (first, second):
        status = hurt / "runs" / "job" / layout.STATUS
        assert (read_document(str(status)) or {})["node"] == "a"
        judged = hurt / "runs" / "job" / layout.RULE_SUMMARY
        end_all(first)
        died = time.monotonic()
        stamp = judged.stat().st_mtime_ns
        (hurt / "a-is-gone").touch()
        wait_for(lambda: (read_document(str(status)) or {})["node"] == "b", "another primary agent")
        wait_for(lambda: judged.stat().st_mtime_ns > stamp, "its judge")
        took_seconds = time.monotonic() - died
        (hurt / "high").touch()
        _, err = second.communicate(timeout=PATIENCE)
    assert second.returncode == 10, err
    assert verdicts(hurt / "runs" / "job") == verdicts(run)
    assert took_seconds < TAKEOVER_SECONDS


def command(folder: Path, name: str, *words: str, run: str | None = "job", **changes: str) -> subprocess.Popen[str]:
    """Start any command on a node; without a name of a run, the launcher tells it."""
    options = ("--out", str(folder / "runs"), "--no-default-rules", "--preset", "light")
    return subprocess.Popen(
        [*LEADLINE, "run", *options, *(("--join", run) if run else ()), "--", *words],
        cwd=folder,
        env=environment(LEADLINE_NODE_NAME=name, **changes),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_run_is_closed_after_the_last_node_and_failed_if_any_did(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "job"

    def until(file: str, status: int = 0) -> tuple[str, ...]:
        return "sh", "-c", f"while [ ! -e {tmp_path / file} ]; do sleep 0.1; done; exit {status}"

    first = command(tmp_path, "a", *until("first"))
    beside = second = None
    try:
        wait_for(lambda: latest_term(str(run)).node == "a", "the first term")
        second = command(tmp_path, "b", *until("second", 3))
        wait_for(lambda: (run / layout.node_document("b")).exists(), "the second node")
        beside = command(tmp_path, "b", *until("beside"))
        wait_for(lambda: (run / layout.node_processes("b")).exists(), "another process of the second node")
        for file in ("first", "second", "beside"):
            assert first.poll() is None
            (tmp_path / file).touch()
            time.sleep(0.5)
        outputs = [process.communicate(timeout=PATIENCE) for process in (first, second, beside)]
    finally:
        for process in filter(None, (first, second, beside)):
            if process.poll() is None:
                end_all(process)
    assert (first.returncode, second.returncode, beside.returncode) == (0, 3, 0), outputs
    assert "waiting for the end of the run on b" in outputs[0][1]
    assert "exit 3 on b; the run continues on a" in outputs[1][1]
    assert outputs[2][1] == ""
    told = show(run)
    assert (told["status"], told["exit_status"]) == ("Failed", 3)
    assert [(node["node"], node["exit_status"]) for node in documents(run / layout.NODES)] == [("a", 0), ("b", 3)]
    assert not list(run.glob("nodes/*.alive"))
    late = command(tmp_path, "c", "true", run="over")
    assert late.communicate(timeout=PATIENCE)[0] == ""
    refused = command(tmp_path, "c", "true", run="over")
    _, err = refused.communicate(timeout=PATIENCE)
    assert refused.returncode == 2
    over = tmp_path / "runs" / "over"
    assert err == f"leadline: the run at {over} has ended (Completed) and cannot be joined; give another name\n"


def test_the_nodes_of_a_job_of_slurm_find_their_run(tmp_path: Path) -> None:
    srun = {"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
    go = tmp_path / "go"
    waits = ("sh", "-c", f"while [ ! -e {go} ]; do sleep 0.1; done")
    nodes = [command(tmp_path, name, *waits, run=None, **srun) for name in "ab"]  # both may be the first
    try:
        wait_for(lambda: len(documents(tmp_path / "runs" / "slurm-17-0" / layout.NODES)) == 2, "two nodes")
        go.touch()
        outputs = [process.communicate(timeout=PATIENCE) for process in nodes]
    finally:
        for process in nodes:
            if process.poll() is None:
                end_all(process)
    assert [process.returncode for process in nodes] == [0, 0], outputs
    assert show(tmp_path / "runs" / "slurm-17-0")["status"] == "Completed"
    again = command(tmp_path, "a", "true", run=None, **srun)
    assert again.communicate(timeout=PATIENCE)[0] == ""
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["slurm-17-0", "slurm-17-0-2"]


@pytest.mark.slow
def test_ctrl_c_leaves_the_run_to_the_other_nodes(tmp_path: Path) -> None:
    run, go = tmp_path / "runs" / "job", tmp_path / "go"
    first = command(tmp_path, "a", "sleep", "4")
    second = None
    try:
        wait_for(lambda: latest_term(str(run)).node == "a", "the first term")
        second = command(tmp_path, "b", "sh", "-c", f"while [ ! -e {go} ]; do sleep 0.1; done")
        wait_for(lambda: (run / layout.node_document("b")).exists(), "the second node")
        assert first.stderr is not None
        lines = iter(first.stderr.readline, "")
        assert any("waiting for the end of the run on b" in line for line in lines)
        first.send_signal(signal.SIGINT)
        _, err = first.communicate(timeout=PATIENCE)
        wait_for(lambda: latest_term(str(run)).node == "b", "another primary agent")
        wait_for(lambda: (read_document(str(run / layout.STATUS)) or {})["node"] == "b", "its status")
        assert (read_document(str(run / layout.STATUS)) or {})["status"] == "InProgress"
        go.touch()
        second.communicate(timeout=PATIENCE)
    finally:
        for process in filter(None, (first, second)):
            if process.poll() is None:
                end_all(process)
    assert "the run continues on other nodes" in err
    assert (first.returncode, second.returncode) == (0, 0)
    assert show(run)["status"] == "Completed"
