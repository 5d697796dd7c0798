"""Stored runs judged on every engine: same verdicts as each run judged alone, no processes or files left behind."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from fault_examples import examples
from generated_runs import scenarios
from hypothesis import HealthCheck, Phase, given, settings
from launching import PATIENCE, environment, script, wait_for, watched

from leadline.config.options import parse_rule
from leadline.judge.evaluator import Evaluator
from leadline.judge.rule_plan import named, resolve_rules
from leadline.reader.find_runs import find_runs, read_manifest
from leadline.rules.registry import BUILT_IN
from leadline.testing.runs import Part, RunWriter

pytestmark = pytest.mark.slow

RAY_PYTHON = str(Path(__file__).parents[2] / ".venvs" / "ray" / "bin" / "python")
GIVEN = {
    "all_zero": "collection_names=gradients",
    "similar_across_runs": "other_trials=story-0,fires_on=similar",
    "tensor_variance": "tensor_regex=.,max_threshold=1.0",
    "unchanged_tensor": "collection_names=gradients",
}
STORIES = 6
FAULTS = ("dead_relu", "loss_spike", "unused_parameter")
"""Trainings with a planted fault that are recorded by these tests."""
MINE = """
import os
from leadline.rules import Clear, Fired, Needs, Rule

class Mine(Rule):
    def needs(self):
        return Needs.of("losses", "value")

    def evaluate(self, window):
        if window.step == 5:
            raise ValueError(f"at {window.step}")
        return Fired("as asked") if window.step == 2 else Clear()

class Dies(Mine):
    def evaluate(self, window):
        if window.step == 3:
            os._exit(3)
        return Clear()

class Hangs(Mine):
    def evaluate(self, window):
        while True:
            pass
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with generated runs of every kind and recorded faults."""
    folder = tmp_path_factory.mktemp("engines")
    (folder / "mine.py").write_text(MINE)
    for index, story in enumerate(some_stories(STORIES)):
        RunWriter(folder / "runs" / f"story-{index}", batch_rows=3, segment_batches=2).write_all(story).end()
    for name in FAULTS:
        options = (*examples()[name].options, "--name", name)
        assert watched(options, script("faults.py"), name, folder=folder).status in (0, 10)
    return folder


def some_stories(count: int) -> list[list[Part]]:
    """Return scenarios; the same ones at every call."""
    found: list[list[Part]] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    @given(scenarios(is_rich=True))
    def collect(story: list[Part]) -> None:
        found.append(story)

    collect()
    return found[:count]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Start a Ray cluster of two nodes on this machine; yields its address."""
    process = subprocess.Popen(
        [RAY_PYTHON, script("ray_nodes.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.communicate("", timeout=PATIENCE)


OWN_RULES = [f"{name}:{GIVEN[name]}" if name in GIVEN else name for name in BUILT_IN]
CUSTOM_RULES = ["mine.py:Mine", "dies=mine.py:Dies"]
"""Each has a process of its own for each run."""


def judge(
    folder: Path, *options: str, rules: Sequence[str] = (), ray: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Judge with the local engine, or on a Ray cluster with that address."""
    python = sys.executable
    if ray is not None:
        python, options = RAY_PYTHON, (*options, "--engine", "ray", "--ray-address", ray)
    words = [python, "-m", "leadline", "judge", *options, *(word for rule in rules for word in ("--rule", rule))]
    env = environment(LEADLINE_ROOT=str(folder / "runs"))
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the results by run; standard error must contain only progress lines."""
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("leadline: judged ") for line in done.stderr.splitlines()), done.stderr
    return {run["name"]: run for run in json.loads(done.stdout)}


def alone(folder: Path, run: str) -> dict[str, Any]:
    """Return the result of each built-in rule, evaluated alone on a run in this process."""
    found = {}
    specs = [named(parse_rule(rule, str(folder))) for rule in OWN_RULES]
    for spec, rule in resolve_rules(specs):
        judging = Evaluator(run, [(spec.alias, rule)], started_ns=read_manifest(run).started_ns)
        progress = judging.advance(is_over=True)
        (state,) = progress.rules.values()
        last = {event["id"]: event for _, event in progress.events}
        findings = [
            (event["step"], event["last_step"], event["message"], list(event["tensors"])) for event in last.values()
        ]
        found[spec.alias] = (state["verdict"], state["why"], state["judged_steps"], findings)
    return found


@pytest.fixture(scope="module")
def local(root: Path) -> dict[str, Any]:
    """The results of the local engine by run."""
    return told(judge(root, "runs", "--json", rules=OWN_RULES))


def test_every_engine_returns_the_same_verdicts_as_judging_each_run_alone(
    root: Path, cluster: str, local: dict[str, Any]
) -> None:
    assert told(judge(root, "runs", "--json", rules=OWN_RULES, ray=cluster)) == local
    assert len(local) == STORIES + len(FAULTS)
    fired = set()
    for run in find_runs(root / "runs"):
        judged = {rule["name"]: rule for rule in local[Path(run).name]["rules"]}
        assert len(judged) == len(OWN_RULES)
        for name, (verdict, why, judged_steps, findings) in alone(root, run).items():
            result = judged[name]
            said = [(one["step"], one["last_step"], one["message"], one["tensors"]) for one in result["findings"]]
            assert (result["verdict"], said) == (verdict, findings), (run, name)
            assert result["judged_steps"] == judged_steps
            if verdict == "undecided":
                assert result["why"] == why
            fired |= {name} if findings else set()
    assert fired >= set(FAULTS)
    assert len(fired) >= 10


def test_fewer_runs_than_processors_are_split_by_rules(root: Path, cluster: str) -> None:
    rules = [*OWN_RULES, *CUSTOM_RULES]
    one = told(judge(root, "loss_spike", "--json", rules=rules))
    assert told(judge(root, "loss_spike", "--json", rules=rules, ray=cluster)) == one
    judged = {rule["name"]: rule for rule in one["loss_spike"]["rules"]}
    assert len(judged) == len(rules)
    assert judged["mine"]["why"] == "ValueError: at 5 (mine.py:11)"
    assert [finding["message"] for finding in judged["mine"]["findings"]] == ["as asked"]
    assert judged["dies"]["why"] == "its process exited with status 3"


def test_runs_and_rule_files_missing_on_a_node_are_reported(root: Path, cluster: str) -> None:
    """The engine receives paths that do not exist, as on a node without the files of the requesting machine."""
    asked = f"""
import json
from leadline.judge.engines.engine import Task
from leadline.judge.engines.ray import RayEngine
from leadline.records.manifest import RuleSpec

rules = (RuleSpec("mine", "mine.py:Mine", folder="/nowhere"), RuleSpec("bad", "exploding_tensor"))
tasks = [Task("/nowhere/run", rules), Task({str(root / "runs" / "loss_spike")!r}, rules)]
for each in RayEngine({cluster!r}).judge(tasks):
    print(json.dumps([each.run, each.problem, [[rule.name, rule.status, rule.why] for rule in each.rules]]))
"""
    done = subprocess.run(
        [RAY_PYTHON, "-c", asked],
        cwd=root,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    host = os.uname().nodename
    answers = {run: rest for run, *rest in map(json.loads, done.stdout.splitlines())}
    assert answers.pop("/nowhere/run") == [
        f"node {host} has no run at /nowhere/run; with Ray, all nodes need the runs under the same path",
        [],
    ]
    ((fine, results),) = answers.values()
    assert fine == ""
    assert results == [
        [
            "mine",
            "Error",
            f"node {host} does not have the rule file /nowhere/mine.py; all nodes need it under the same path",
        ],
        ["bad", "NoIssuesFound", ""],
    ]


def test_a_missing_cluster_is_reported_in_one_line(root: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    for place, said in ((address, "no cluster answers"), ("nonsense", "must be host:port")):
        done = judge(root, "runs", rules=["loss_spike"], ray=place)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
        assert done.stderr.startswith(f"leadline: --ray-address {place}: {said}")


def test_a_killed_ray_process_is_replaced_and_its_rule_workers_end(root: Path, local: dict[str, Any]) -> None:
    names = ["story-0", "story-1", *FAULTS]
    words = [*names, "--json", "--engine", "ray", *(word for rule in OWN_RULES for word in ("--rule", rule))]
    process = subprocess.Popen(
        [RAY_PYTHON, "-m", "leadline", "judge", *words],
        cwd=root,
        env=environment(LEADLINE_ROOT=str(root / "runs")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        victim = wait_for(lambda: judging_for_ray(process.pid), "a rule worker below a process of Ray's")
        orphans = victim.children(recursive=True)
        victim.kill()
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert {run["name"]: run for run in json.loads(out)} == {name: local[name] for name in names}
    _, alive = psutil.wait_procs(orphans, timeout=PATIENCE)
    assert alive == []


def judging_for_ray(pid: int) -> psutil.Process | None:
    """Return a Ray worker process, below a process, that has started a rule worker."""
    for process in psutil.Process(pid).children(recursive=True):
        try:
            if "leadline.judge.rule_worker" in process.cmdline():
                return process.parent()
        except psutil.NoSuchProcess:
            continue
    return None


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_ctrl_c_ends_the_command_and_all_its_processes(root: Path, engine: str) -> None:
    words = f"-m leadline judge runs --engine {engine} --rule mine.py:Hangs --rule exploding_tensor"
    process = subprocess.Popen(
        [RAY_PYTHON if engine == "ray" else sys.executable, *shlex.split(words)],
        cwd=root,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        spinning = wait_for(lambda: hanging(process.pid), "a rule worker that hangs")
        started = [*psutil.Process(process.pid).children(recursive=True), *spinning]
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (130, "", "")
    _, alive = psutil.wait_procs(started, timeout=PATIENCE)
    assert alive == []


def hanging(pid: int) -> list[psutil.Process]:
    """Return rule workers below a process that have been busy for half a second longer than startup takes."""
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        try:
            if (
                "leadline.judge.rule_worker" in process.cmdline()
                and process.nice() >= 10
                and process.cpu_times().user > 2.0
            ):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def test_judging_does_not_modify_the_runs(root: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (root / "runs").rglob("*")}
    told(judge(root, "runs", "--json", rules=["loss_spike"]))
    assert {path: path.stat().st_mtime_ns for path in (root / "runs").rglob("*")} == before
