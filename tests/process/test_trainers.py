"""Trainings with the trainers of TRL, Transformers, PEFT and Accelerate: same bits, silent, and mistakes are named."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from false_alarms import judge
from launching import LEADLINE, Ended, environment, finish, rule, script
from recorded import recorded

PYTHON = Path(__file__).parents[2] / ".venvs" / "loggers" / "bin" / "python"
SCRIPT = script("trainers.py")
KINDS = ("sft", "grpo", "lora", "resumed")
RANKS = (str(PYTHON), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", SCRIPT, "ranks")
MISTAKES = {
    "sft": ("loss_input", "the token two positions after that of the input"),
    "grpo": ("dead_groups", "frac_reward_zero_std is 1 on average over the last 20 values"),
    "lora": ("no_learning", "lora_A.default.weight, and 3 more parameters: gradients at each of"),
}
REMARKS = {
    "ended": "the end token (2), which is the token of padding, too, occurs in 16 of the first 16 sequences, and never",
    "packed": "4 of the first 4 rows hold several samples (position_ids begin again), and each attends to those before",
    "new_tokens": "2 tokens of a batch have the same row in the embedding, which is frozen",
    "templated": "the sequences of a batch begin with the same 6 tokens, and these are labels, as are 100 % of all",
}
"""What closing_remarks says of mistakes that may be meant."""
STEPS = 20
OFFLINE = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

pytestmark = pytest.mark.slow


@cache
def digests() -> dict[str, str]:
    """Return the digests of the weights of trainings without Leadline, all in one process."""
    ended, _ = recorded([str(PYTHON), SCRIPT, ",".join(KINDS)], **OFFLINE)
    assert ended.status == 0, ended.err
    return dict(line.split() for line in ended.lines if line.split()[0] in KINDS)


def watched(folder: Path, *command: str):
    """Run a training under the Leadline of its environment."""
    words = [str(PYTHON), *LEADLINE[1:], "run", "--out", str(folder / "runs"), *command]
    ended = finish(words, folder, env=environment(**OFFLINE))
    assert ended.status == 0, ended.err
    return ended


@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_training_has_the_same_bits_and_no_finding(tmp_path: Path, kind: str) -> None:
    ended = watched(tmp_path, SCRIPT, kind)
    assert f"{kind} {digests()[kind]}" in ended.out.splitlines()
    said = ended.show()
    assert said["steps"]["train"] == STEPS
    assert {state["name"]: state["findings"] for state in said["rules"] if state["findings"]} == {}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_named_within_twenty_steps(tmp_path: Path, kind: str) -> None:
    name, words = MISTAKES[kind]
    (finding, *_) = rule(watched(tmp_path, SCRIPT, kind, "faulty").show(), name)["findings"]
    assert words in finding["message"]
    assert finding["step"] < STEPS


@pytest.mark.parametrize("kind", REMARKS)
def test_what_may_be_meant_is_remarked_at_the_end(tmp_path: Path, kind: str) -> None:
    folders = tmp_path / "faulty", tmp_path / "healthy"
    for folder in folders:
        folder.mkdir()
    faulty, healthy = watched(folders[0], SCRIPT, kind, "faulty"), watched(folders[1], SCRIPT, kind)
    words = REMARKS[kind]
    assert [remark for remark in of_tokens(faulty) if words in remark] == of_tokens(faulty) != []
    assert of_tokens(healthy) == []


def of_tokens(ended: Ended) -> list[str]:
    """Return what closing_remarks says of tokens and labels."""
    remarks = judge(Path(ended.run.path))["closing_remarks"].remarks
    return [remark for remark in remarks if any(word in remark for word in ("sequences", "rows", "embedding"))]


def test_a_router_that_prefers_some_experts_is_named(tmp_path: Path) -> None:
    found = {}
    for mistake in ("faulty", ""):
        folder = tmp_path / (mistake or "healthy")
        folder.mkdir()
        words = ("--rule", "expert_balance:captures=5", SCRIPT, "experts", *([mistake] if mistake else []))
        found[mistake] = judge(Path(watched(folder, *words).run.path))["expert_balance"]
    assert ".mlp.gate: expert " in found["faulty"].findings[0]
    assert (found[""].verdict, found[""].findings) == ("clear", ())


def test_ranks_of_accelerate_have_the_same_bits_and_are_silent(tmp_path: Path) -> None:
    bare = finish([*RANKS], tmp_path, env=environment(**OFFLINE))
    assert bare.status == 0, bare.err
    ended = watched(tmp_path, "--", *RANKS)
    assert set(ended.out.split("\n")) >= {line for line in bare.lines if line.startswith("ranks ")}
    said = ended.show()
    assert {state["name"]: state["findings"] for state in said["rules"] if state["findings"]} == {}
    assert len(said["workers"]) == 2


def test_ranks_that_read_the_same_batches_are_named(tmp_path: Path) -> None:
    (finding, *_) = rule(watched(tmp_path, "--", *RANKS, "faulty").show(), "duplicate_batches")["findings"]
    assert finding["step"] < STEPS
