"""Runs whose nodes share only an object store: each has a folder of its own, and they meet in moto's S3 server."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from amazon import CREDENTIALS, REGION, amazon, client
from launching import LEADLINE, PATIENCE, end_all, environment, finish, losses, script, show, wait_for

import leadline
from leadline.reader.run import Run
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.store.terms import latest_term

BUCKET = "nodes"
ROOT = f"s3://{BUCKET}/team"
TAKEOVER_SECONDS = 30.0
RULES = (
    *("--no-default-rules", "--rule", f"high={script('steered_rules.py')}:High", "--rule", "exploding_tensor"),
    *("--on", "high=stop_training", "--budget", "off"),
)


@dataclass(frozen=True)
class Nodes:
    """Machines that share nothing but a store; the trainings themselves are kept in step by files in ``folder``."""

    folder: Path
    variables: dict[str, str]

    def spool(self, node: str) -> Path:
        return self.folder / f"machine-{node}" / "leadline-runs"

    def start(self, node: str, *words: str, options: tuple[str, ...] = RULES, **changes: str) -> subprocess.Popen[str]:
        machine = self.spool(node).parent
        machine.mkdir(parents=True, exist_ok=True)
        return subprocess.Popen(
            [*LEADLINE, "run", *(("--out", ROOT) if "--resume" not in words else ()), *options, *words],
            cwd=machine,
            env=environment(
                **self.variables | {"LEADLINE_NODE_NAME": node, "RANK": str(ord(node) - ord("a"))} | changes
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def train(self, node: str, other: str, run: str) -> subprocess.Popen[str]:
        return self.start(node, "--join", run, "--", script("joined.py"), str(self.folder), node, other)

    @contextmanager
    def two(self, run: str) -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
        """Start node a, whose agent becomes the primary one, and then node b; a has heard of the steps of both."""
        self.folder.mkdir(exist_ok=True)
        nodes = [self.train("a", "b", run)]
        try:
            wait_for(lambda: self.status("a", run).get("node") == "a", "the status of the first node")
            nodes.append(self.train("b", "a", run))
            workers = self.spool("a") / run / layout.WORKERS
            wait_for(lambda: [one for one in documents(workers) if one["steps"].get("train", 0) > 10][1:], "both")
            yield nodes[0], nodes[1]
        finally:
            end_those(nodes)

    def status(self, node: str, run: str) -> dict[str, Any]:
        return read_document(str(self.spool(node) / run / layout.STATUS)) or {}


def documents(folder: Path) -> list[dict[str, Any]]:
    found = (read_document(str(path)) for path in folder.glob("*.json"))
    return [document for document in found if isinstance(document, dict)]


def end_those(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        if process.poll() is None:
            end_all(process)


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    """Yields the environment in which the store is reached."""
    with amazon() as address:
        client("s3", address).create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        yield {**CREDENTIALS, "AWS_ENDPOINT_URL": address}


@pytest.fixture
def nodes(store: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL_S3", "LEADLINE_ROOT", "LEADLINE_SPOOL"):
        monkeypatch.delenv(name, raising=False)
    variables = store | {"LEADLINE_CACHE": str(tmp_path / "cache")}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return Nodes(tmp_path / "nodes", variables)


def verdicts(run: str) -> dict[str, tuple[str, str]]:
    return {rule["name"]: (rule["status"], rule["verdict"]) for rule in show(run)["rules"]}


def last_steps(run: Run) -> set[int]:
    return {worker["steps"]["train"] - 1 for worker in documents(Path(run.path, layout.WORKERS))}


@pytest.mark.slow
def test_nodes_that_share_only_a_store_are_one_run(nodes: Nodes) -> None:
    """Must show 5 of the issue: one stop, a judge that is replaced, and the same verdicts."""
    calm = nodes
    with calm.two("calm") as (first, second):
        (calm.folder / "high").touch()
        ends = [process.communicate(timeout=PATIENCE) for process in (first, second)]
    assert [first.returncode, second.returncode] == [10, 10], ends
    run = leadline.open_run(f"{ROOT}/calm")
    assert (run.status, len(run.workers())) == ("Stopped", 2)
    assert len(last_steps(run)) == 1, "both nodes stop at one step"
    assert latest_term(run.path).number == 1
    assert "joined on b" in ends[1][1]
    assert "high  step" in ends[0][1], "the first node tells the findings of the run"
    assert {document["node"] for document in run.manifest.nodes} == {"a", "b"}
    assert run.verify() == []
    own, of_other = (len(list((calm.spool("b") / "calm" / layout.SERIES).glob(f"rank{rank}-*"))) for rank in (1, 0))
    assert (own, of_other) == (1, 0), "captured data is fetched only where it is judged"

    hurt = Nodes(nodes.folder.with_name("hurt"), nodes.variables)
    with hurt.two("hurt") as (first, second):
        end_all(first)
        died = time.monotonic()
        (hurt.folder / "a-is-gone").touch()
        wait_for(lambda: hurt.status("b", "hurt").get("node") == "b", "another primary agent")
        judged = hurt.spool("b") / "hurt" / layout.RULE_SUMMARY
        stamp = judged.stat().st_mtime_ns
        wait_for(lambda: judged.stat().st_mtime_ns > stamp, "its judge")
        took_seconds = time.monotonic() - died
        (hurt.folder / "high").touch()
        _, err = second.communicate(timeout=PATIENCE)
    assert second.returncode == 10, err
    after = leadline.open_run(f"{ROOT}/hurt")
    assert (after.status, len(after.workers()), latest_term(after.path).number) == ("Stopped", 2, 2)
    assert verdicts(f"{ROOT}/hurt") == verdicts(f"{ROOT}/calm")
    assert all(len(losses(after, worker=worker)) > 10 for worker in after.workers())
    print(f"the judge was replaced after {took_seconds:.1f} s")
    assert took_seconds < TAKEOVER_SECONDS


@pytest.mark.slow
def test_nodes_find_their_run_in_the_store_and_none_joins_after_its_end(nodes: Nodes) -> None:
    srun = {"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
    nodes.folder.mkdir()
    go, light = nodes.folder / "go", ("--no-default-rules", "--preset", "light")
    waits = ("--", "sh", "-c", f"while [ ! -e {go} ]; do sleep 0.1; done")
    started = [nodes.start(name, *waits, options=light, **srun) for name in "ab"]  # either may be the first
    try:
        for name in "ab":
            folder = nodes.spool(name) / "slurm-17-0" / layout.NODES
            wait_for(lambda folder=folder: len(documents(folder)) == 2, "two nodes")
        stopped = finish(
            [*LEADLINE, "set", f"{ROOT}/slurm-17-0", "interval-ms=1000"],
            nodes.folder,
            env=environment(**nodes.variables),
        )
        assert stopped.status == 0, stopped.err
        acknowledged = [nodes.spool(name) / "slurm-17-0" / layout.ACKS for name in "ab"]
        wait_for(lambda: all(len(list(folder.glob("*.json"))) == 2 for folder in acknowledged), "both answers on both")
        go.touch()
        outputs = [process.communicate(timeout=PATIENCE) for process in started]
    finally:
        end_those(started)
    assert [process.returncode for process in started] == [0, 0], outputs
    run = leadline.open_run(f"{ROOT}/slurm-17-0")
    assert (run.status, sorted(node["node"] for node in run.manifest.nodes)) == ("Completed", ["a", "b"])
    late = nodes.start("c", "--join", "slurm-17-0", "--", "true", options=light)
    _, err = late.communicate(timeout=PATIENCE)
    told = f"the run at {ROOT}/slurm-17-0 has ended (Completed) and cannot be joined; give another name"
    assert (late.returncode, err) == (2, f"leadline: {told}\n")
    assert not list(nodes.spool("c").glob("*")), "nothing is left of it"
    again = nodes.start("a", "--", "true", options=light, **srun)
    outputs = [again.communicate(timeout=PATIENCE)]
    assert again.returncode == 0, outputs
    assert leadline.open_run(f"{ROOT}/slurm-17-0-2").status == "Completed", outputs


@pytest.mark.slow
def test_a_stop_from_elsewhere_reaches_all_nodes_at_one_step(nodes: Nodes) -> None:
    words = [*LEADLINE, "stop", f"{ROOT}/asked", "--grace", "300"]  # on a busy machine 15 s of steps take minutes
    with nodes.two("asked") as (first, second):
        asked = finish(words, nodes.folder, env=environment(**nodes.variables))
        ends = [process.communicate(timeout=PATIENCE) for process in (first, second)]
    assert "stop of asked at global step" in asked.out, asked
    assert [first.returncode, second.returncode] == [10, 10], ends
    run = leadline.open_run(f"{ROOT}/asked")
    assert (run.status, len(last_steps(run))) == ("Stopped", 1)


RESUMED = ("--no-default-rules", "--budget", "off", "--capture", "weights:every=3,raw=true")
STEPS = 45


@pytest.mark.slow
def test_nodes_resume_their_run_together_on_other_machines(nodes: Nodes) -> None:
    """The second time after the end of its jobs, the third time after the loss of all machines."""
    nodes.folder.mkdir()

    def training(rank: int, node: str, dies_at: int, *words: str) -> subprocess.Popen[str]:
        """Start the process of a rank, which kills itself at a step, or waits there for its end (-STEP)."""
        words = words or ("--join", "moved")
        command = ("--", script("rank_of_a_store.py"), str(nodes.folder), str(STEPS), str(dies_at))
        options = () if "--resume" in words else RESUMED
        return nodes.start(node, *words, *command, options=options, RANK=str(rank))

    def ended(*started: subprocess.Popen[str]) -> list[tuple[int, str]]:
        try:
            outputs = [process.communicate(timeout=PATIENCE) for process in started]
        finally:
            end_those([*started])
        return [(process.returncode, err) for process, (_, err) in zip(started, outputs, strict=True)]

    failed = ended(training(0, "a", 18), training(1, "b", 18))
    assert [status for status, _ in failed] == [137, 137], failed
    lost = [training(0, "c", -33), training(1, "a", -33)]  # rank 0 has moved, and rank 1
    try:
        wait_for(lambda: len(list(nodes.folder.glob("waits-*"))) == 2, "both processes at step 33")
        wait_for(lambda: recorded_steps(f"{ROOT}/moved") == [33, 33], "the upload of both")
    finally:
        end_those(lost)
    last = ended(
        training(1, "a", STEPS, "--resume", "moved"),
        training(0, "b", STEPS),  # whose run directory is of the first start
    )
    assert [status for status, _ in last] == [0, 0], last
    run = leadline.open_run(f"{ROOT}/moved")
    assert run.status == "Completed"
    assert run.steps() == list(range(STEPS))
    assert [(what.steps, what.resumed_step) for what in run.interruptions()] == [(18, 15), (33, 30)]
    assert run.verify() == []
    (name,) = (name for name in run.tensor_names("weights") if name.endswith("weight"))
    assert len(run.workers()) == 2
    for rank in (0, 1):
        (worker,) = (worker for worker in run.workers() if worker.startswith(f"rank{rank}-"))
        lines = map(json.loads, (nodes.folder / f"told-{rank}.jsonl").read_text().splitlines())
        told = {step: (loss, weights) for step, loss, weights in lines}  # the last of each step
        assert losses(run, worker=worker) == {step: loss for step, (loss, _) in told.items()}
        for step in (12, 18, 27, 33, 42):
            assert run.tensor(name).value(step, worker=worker).tolist() == told[step][1]


def recorded_steps(uri: str) -> list[int]:
    run = leadline.open_run(uri)
    return [1 + max(losses(run, worker=worker), default=-1) for worker in run.workers()]


@pytest.mark.slow
def test_workers_that_torchrun_restarts_on_nodes_of_a_store_continue(nodes: Nodes) -> None:
    nodes.folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{free.getsockname()[1]}"
    words = ("-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "2")
    rendezvous = ("--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", "job")
    command = (sys.executable, *words, *rendezvous, script("restarted_nodes.py"), str(nodes.folder), "17")
    started = [nodes.start(name, "--join", "torchrun", "--", *command, options=RESUMED) for name in "ab"]
    try:
        outputs = [process.communicate(timeout=PATIENCE) for process in started]
    finally:
        end_those(started)
    assert [process.returncode for process in started] == [0, 0], outputs
    run = leadline.open_run(f"{ROOT}/torchrun")
    assert run.steps() == list(range(30))
    assert [(what.status, what.steps, what.resumed_step) for what in run.interruptions()] == [("Failed", 17, 15)]
    assert run.verify() == []
    workers = sorted(run.workers())
    assert [worker.partition("-")[0] for worker in workers] == ["rank0", "rank1"]
    for rank, worker in enumerate(workers):
        lines = (nodes.folder / f"losses-{rank}.jsonl").read_text().splitlines()
        assert len(lines) > 30, "steps were repeated"
        assert losses(run, worker=worker) == dict(map(json.loads, lines)), "the last of each step"
