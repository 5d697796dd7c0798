"""Trainings with the trainers of TRL, Transformers, PEFT and Accelerate: same bits, silent, and mistakes are named."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from judged_runs import judge
from launching import LEADLINE, environment, finish, rule, script, show
from recorded import recorded

PYTHON = Path(__file__).parents[2] / ".venvs" / "loggers" / "bin" / "python"
SCRIPT = script("trainers.py")
KINDS = ("sft", "grpo", "lora", "resumed")
RANKS = (str(PYTHON), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", SCRIPT)
MISTAKES = {
    "sft": ("loss_input", "the token two positions after that of the input"),
    "grpo": ("dead_groups", "frac_reward_zero_std is 1 on average over the last 20 values"),
    "resumed": ("resume_changed", "the norm of its moments is 0 in place of"),
    "lora": ("no_learning", "PeftModel: no optimizer holds any of its 4 adapter weights (lora) when the first step is"),
}
CUT = "of the first 16 sequences fill the batch to its end without an end token (2), with which"
REMARKS = {
    "ended": "the end token (2), which is the token of padding, too, occurs in 16 of the first 16 sequences, and never",
    "shortened": "of 160 examples of a data set, of which nothing was left to learn: usually the maximum length",
    "cut_answers": CUT,
    "packed": "4 of the first 4 rows hold several samples (position_ids begin again), and each attends to those before",
    "new_tokens": "2 tokens of a batch got a row when the embedding was enlarged",
    "templated": "the sequences of a batch begin with the same 6 tokens, and these are labels, as are 100 % of all",
    "dialogues": "all sequences of a batch hold the same tokens in a row, behind their beginnings (a template), and",
    "pretrained": "the beginning token (1) occurs in none of the first 16 sequences",
}
"""What closing_remarks says of mistakes that may be meant."""
STEPS = 20
OFFLINE = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

pytestmark = pytest.mark.slow


@cache
def trained() -> tuple[dict[str, str], Path]:
    """Train all kinds in one process, first without Leadline; return the digests of the weights, and the runs."""
    healthy = (*KINDS, *REMARKS, "experts")
    faulty = (f"{kind}-faulty" for kind in (*MISTAKES, *REMARKS, "experts"))
    ended, folder = recorded([str(PYTHON), SCRIPT, *KINDS, "--watched", *healthy, *faulty], **OFFLINE)
    assert ended.status == 0, ended.err
    told = (line.rpartition(" ") for line in ended.lines if line.startswith((*KINDS, "watched ")))
    return {name: digest for name, _, digest in told}, folder / "leadline-runs"


@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_training_has_the_same_bits_and_no_finding(kind: str) -> None:
    digests, runs = trained()
    assert digests[f"watched {kind}"] == digests[kind]
    assert show(runs / kind)["steps"]["train"] == STEPS
    told = judge(runs / kind)
    assert {name: state for name, state in told.items() if state.findings or state.verdict == "error"} == {}
    assert [remark for remark in told["closing_remarks"].remarks if "probabilities" in remark] == []


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_named_within_twenty_steps(kind: str) -> None:
    name, words = MISTAKES[kind]
    found = judge(trained()[1] / f"{kind}-faulty")[name]
    assert words in found.findings[0]
    assert found.step is not None
    assert found.step < STEPS


@pytest.mark.parametrize("kind", REMARKS)
def test_what_may_be_meant_is_remarked_at_the_end(kind: str) -> None:
    _, runs = trained()
    faulty, words = of_tokens(runs / f"{kind}-faulty"), REMARKS[kind]
    others = [remark for remark in faulty if words not in remark]
    assert others != faulty
    assert all(kind == "shortened" and CUT in remark for remark in others)  # answers that are cut in part
    assert of_tokens(runs / kind) == []


def of_tokens(run: Path) -> list[str]:
    """Return what closing_remarks says of tokens and labels."""
    remarks = judge(run)["closing_remarks"].remarks
    words = ("sequences", "rows", "embedding", "examples")
    return [remark for remark in remarks if any(word in remark for word in words)]


def test_a_router_that_prefers_some_experts_is_named() -> None:
    faulty, healthy = (judge(trained()[1] / name)["expert_balance"] for name in ("experts-faulty", "experts"))
    assert ".mlp.gate: expert " in faulty.findings[0]
    assert (healthy.verdict, healthy.findings) == ("clear", ())


def watched(folder: Path, *command: str):
    """Run a training under the Leadline of its environment."""
    words = [str(PYTHON), *LEADLINE[1:], "run", "--out", str(folder / "runs"), *command]
    ended = finish(words, folder, env=environment(**OFFLINE))
    assert ended.status == 0, ended.err
    return ended


def test_ranks_of_accelerate_have_the_same_bits_and_are_silent(tmp_path: Path) -> None:
    bare = finish([*RANKS, "ranks"], tmp_path, env=environment(**OFFLINE))
    assert bare.status == 0, bare.err
    ended = watched(tmp_path, "--", *RANKS, "ranks")
    assert set(ended.out.split("\n")) >= {line for line in bare.lines if line.startswith("ranks ")}
    said = ended.show()
    assert {state["name"]: state["findings"] for state in said["rules"] if state["findings"]} == {}
    assert len(said["workers"]) == 2


def test_ranks_that_read_the_same_batches_are_named(tmp_path: Path) -> None:
    (finding, *_) = rule(watched(tmp_path, "--", *RANKS, "ranks-faulty").show(), "duplicate_batches")["findings"]
    assert finding["step"] < STEPS


@pytest.mark.parametrize("trainer", ["transformers", "lightning"])
def test_a_trainer_is_ended_by_its_own_means_and_the_script_goes_on(trainer: str, tmp_path: Path) -> None:
    stop = ("--on", "exploding_tensor=stop_training:let_script_finish=true")
    words = [str(PYTHON), *LEADLINE[1:], "run", "--out", str(tmp_path / "runs"), *stop, "--", str(PYTHON)]
    ended = finish([*words, script("trainers_stopped.py"), trainer], tmp_path, env=environment(**OFFLINE))
    assert ended.status == 0, ended.err
    assert ended.lines[-1].startswith("ended at "), ended.err
    assert 20 < int(ended.lines[-1].split()[-1]) < 400
    assert ended.show()["status"] == "Stopped"
    if trainer == "transformers":
        assert (tmp_path / "out" / "trainer_state.json").exists()
