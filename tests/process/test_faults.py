"""Every rule finds its fault, some while the training runs, and is clear on the healthy twin of that training."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from fault_examples import Example, examples, spoken
from judged_runs import judge
from launching import (
    LEADLINE,
    PATIENCE,
    bare,
    command,
    end_all,
    environment,
    finish,
    rule,
    script,
    show,
    wait_for,
    watched,
)

import leadline
from leadline.rules import registry

pytestmark = pytest.mark.slow

EXAMPLES = examples()
CLASSIFIER = (
    "all_zero",
    "dead_relu",
    "exploding_gradient",
    "learning_rate",
    "loss_at_start",
    "loss_input",
    "loss_spike",
    "missing_zero_grad",
    "output_collapse",
    "stalled_training",
    "unscaled_input",
    "weight_saturation",
    "weight_update_ratio",
)
"""Rules whose healthy twins are the same training."""
IMAGES = ("check_input_images", "tensor_variance")
FOUND_LIVE = (
    "check_input_images",
    "duplicate_batches",
    "exploding_gradient",
    "loss_choice",
    "metric_not_improving",
    "no_gradient",
    "nonfinite_origin",
    "replica_divergence",
    "stalled_training",
    "tensor_variance",
    "unused_parameter",
)
"""Rules whose faults are launched, one of each kind of data; all others are trained in one process and judged then."""
COMPILED = "recompilation"
"""The last training of a process: what torch.compile has seen of it, no hook of modules sees any more."""
FOUND_LATER = (*(name for name in EXAMPLES if name not in (*FOUND_LIVE, COMPILED, "similar_across_runs")), COMPILED)
OF_RANKS = ("duplicate_batches", "replica_divergence")
LAUNCHED = (*CLASSIFIER, *IMAGES, *OF_RANKS, "similar_across_runs")
"""Rules whose healthy twins are launched; all others are trained in one process, each in a run of its own."""


OF_THE_MACHINE = frozenset(
    {
        "batch_size",
        "cpu_bottleneck",
        "cpu_utilization",
        "dataloader",
        "gpu_memory_increase",
        "gpu_throttling",
        "hardware_utilization",
        "input_bound",
        "io_bottleneck",
        "load_balancing",
        "low_gpu_utilization",
        "max_initialization_time",
        "memory_growth",
        "operator_time",
        "overall_framework_metrics",
        "overall_system_usage",
        "step_outlier",
        "straggler",
        "throughput_regression",
    }
)
"""Time-based rules: their faults are planted in test_bottlenecks and test_operator_rule, if this machine can
produce them; rules that need a GPU are compared with plain loops only (tests/oracle/test_system_rules_by_loop.py)."""
OF_OTHER_RULES = frozenset({"closing_remarks", "profiler_report", "resume_changed"})
"""The first never fires: see test_first_steps. The second fires when one of the twelve hardware rules fires: see
test_reports_of_jobs. The third needs a second process: see test_resumed_otherwise."""
OF_COPIES = set(registry.GROUPS["Checks on a copy"])
"""Rules on what ``leadline check`` has found: their programs are in ``tests/detection/check_mistakes``."""
OF_TREES = frozenset({"create_xgboost_report", "feature_importance_overweight", "no_split", "tree_depth"})
"""Their faults are planted in test_tree_faults."""


def test_every_rule_has_a_fault_example() -> None:
    others = OF_THE_MACHINE | OF_OTHER_RULES | OF_TREES | OF_COPIES
    assert set(EXAMPLES) == set(registry.BUILT_IN) - others
    assert set(registry.BUILT_IN) >= others


@pytest.mark.parametrize("name", FOUND_LIVE)
def test_a_fault_is_found_while_the_training_runs(tmp_path: Path, name: str) -> None:
    check_found(EXAMPLES[name], found_live(EXAMPLES[name], tmp_path))


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Train the faults one after the other in one process, then judge their runs with one command."""
    folder = tmp_path_factory.mktemp("judged")
    train_in_turn("faulty", {name: EXAMPLES[name].options for name in FOUND_LATER}, folder)
    words = [*LEADLINE, "judge", "--json", *(str(folder / name) for name in FOUND_LATER)]
    ended = finish(words, folder, env=environment())
    assert ended.status == 0, ended.err
    return {run["name"]: run for run in json.loads(ended.out)}


@pytest.mark.parametrize("name", FOUND_LATER)
def test_a_fault_is_found_after_the_training(judged: dict[str, Any], name: str) -> None:
    assert (judged[name]["problem"], judged[name]["damage"]) == (None, [])
    check_finding(EXAMPLES[name], judged[name])


def test_a_different_run_is_distinguished_from_a_repeated_run(tmp_path: Path) -> None:
    example = EXAMPLES["similar_across_runs"]
    first, again = example.commands
    assert watched(first, *training("similar_across_runs", healthy=True), folder=tmp_path).status == 0
    check_found(example, found_live(example, tmp_path))
    repeated = (*again, "--name", "again")
    assert watched(repeated, *training("similar_across_runs", healthy=True), folder=tmp_path).status == 0
    check_silent(show(tmp_path / "runs" / "again"), [example.rule])


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Capture healthy twins one after the other in one process, with the options of their examples."""
    folder = tmp_path_factory.mktemp("twins")
    names = sorted((name for name in EXAMPLES if name not in LAUNCHED), key=lambda name: name == COMPILED)
    options = {name: EXAMPLES[name].options_with_defaults for name in names}
    train_in_turn("healthy", options, folder)
    return folder


def train_in_turn(kind: str, options: Mapping[str, Sequence[str]], folder: Path) -> None:
    words = [sys.executable, script("examples_in_turn.py"), kind]
    ended = finish(words, folder, env=environment(LEADLINE_ROOT=str(folder)), given=json.dumps(options))
    assert ended.status == 0, ended.err


@pytest.mark.parametrize("name", [rule for rule in EXAMPLES if rule not in LAUNCHED])
def test_the_healthy_twin_is_clear(twins: Path, name: str) -> None:
    """No rule has findings, including the default rules."""
    run = leadline.open_run(twins / name)
    assert run.damage == []
    assert [document.lost for document in run.worker_documents().values()] == [None]
    told = judge(twins / name)
    assert {rule: state.findings for rule, state in told.items() if state.findings} == {}
    assert (told[name].verdict, told[name].why) == ("clear", "")


@pytest.mark.parametrize("name", OF_RANKS)
def test_the_healthy_twin_of_two_ranks_is_clear(tmp_path: Path, name: str) -> None:
    ended = watched(EXAMPLES[name].options_with_defaults, *training(name, healthy=True), folder=tmp_path)
    check_silent(ended.show(), [name])


@pytest.mark.parametrize("names", [CLASSIFIER, IMAGES], ids=["classifier", "images"])
def test_healthy_twins_that_share_one_training_are_clear(tmp_path: Path, names: tuple[str, ...]) -> None:
    printed = bare("faults.py", *names, "--healthy", "--digest", folder=tmp_path).lines
    assert len(printed) == len(names)
    assert len({line.split()[1] for line in printed}) == 1
    ended = watched(together(names), *training(names[0], healthy=True), folder=tmp_path)
    check_silent(ended.show(), names)


def training(name: str, *more: str, healthy: bool = False) -> tuple[str, ...]:
    return (script("faults.py"), name, *(("--healthy",) if healthy else ()), *more)


def together(names: tuple[str, ...]) -> list[str]:
    """Return the options of several examples, merged for one launch."""
    found: dict[tuple[str, str], None] = {}
    for name in names:
        options = EXAMPLES[name].options_with_defaults
        found |= dict.fromkeys(zip(options[::2], options[1::2], strict=True))
    return [word for pair in found for word in pair]


def found_live(example: Example, folder: Path) -> dict[str, Any]:
    """Run a fault until its finding is on the terminal; return the output of ``show`` at the end."""
    options = (*example.options, "--name", "faulty")
    said = folder / "stderr"
    with said.open("w") as terminal:
        words = command(options, *training(example.rule, "--until", "seen"), root=folder)
        with launched(words, folder, terminal) as process:
            line = f"step {example.step}  {example.rule}: "
            wait_for(lambda: line in said.read_text() or process.poll() is not None, line)
            assert process.poll() is None, f"it ended before {line!r} was said:\n{said.read_text()}"
            (folder / "seen").touch()
            assert process.wait(PATIENCE) == 0, said.read_text()
    return show(folder / "runs" / "faulty")


@contextmanager
def launched(words: list[str], folder: Path, terminal: IO[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        words,
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=terminal,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            end_all(process)


def check_found(example: Example, said: dict[str, Any]) -> None:
    assert (said["status"], said["damage"], said["lost"]) == ("Completed", [], [])
    check_finding(example, said)


def check_finding(example: Example, said: dict[str, Any]) -> None:
    found = rule(said, example.rule)
    assert (found["status"], found["verdict"]) == ("IssuesFound", "fired")
    first = found["findings"][0]
    assert first["step"] == example.step
    assert spoken(first["message"]) == spoken(example.message)
    assert set(map(spoken, example.names)) <= set(map(spoken, first["tensors"]))
    assert bool(example.names) == bool(first["tensors"])
    assert first["evidence"]
    assert first["suggestion"].count(" ") > 5


def check_silent(said: dict[str, Any], names: Iterable[str]) -> None:
    """Check that these rules are clear and that no other rule has findings, including the default rules."""
    assert (said["status"], said["damage"], said["lost"]) == ("Completed", [], [])
    told = {name: rule(said, name) for name in names}
    found = {rule["name"]: rule["findings"] for rule in said["rules"] if rule["findings"]}
    assert found == {}
    verdicts = {name: (state["status"], state["verdict"], state["why"]) for name, state in told.items()}
    assert verdicts == dict.fromkeys(names, ("NoIssuesFound", "clear", ""))
