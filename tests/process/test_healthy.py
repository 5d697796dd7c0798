"""A healthy training: exit status kept, no rule fired, and bit-identical results whatever is captured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launching import CONSOLE_SCRIPT, Ended, bare, environment, finish, losses, rule, script, watched

from leadline.config.presets import FIRST_STEPS
from leadline.rules.registry import DEFAULT

RAW_EVERY_STEP = ("--capture", "all:every=1,raw=true", "--rule", "vanishing_gradient", "--rule", "weight_update_ratio")
STEPS = 300
LOSS = "cross_entropy_output_0"
OF_RULES = {
    "accuracy",
    "gradient_norm",
    "AdamW/steps_without_zero_grad",
    "AdamW/made_anew",
    "AdamW/state_not_loaded",
    "AdamW/exp_avg_sq/moment_norm",
    "Sequential/train_steps_in_eval_mode",
    "AdamW/nonfinite_averages",
    "loss/consecutive_linear",
    "loss/identical_units",
    "0/given_abs_max",
    "process/recompilations",
    "process/rss_bytes",
}
"""Tensors that presets and default rules capture besides losses, parameters and activations."""
OF_REWARDS = {
    "broken_metric",
    "dead_groups",
    "entropy_collapse",
    "rising_entropy",
    "reward_fall",
    "truncated_completions",
    "kl_divergence",
    "policy_mismatch",
}
NOT_APPLICABLE = {"straggler", "replica_divergence", "duplicate_batches", "gpu_throttling", "no_split"} | OF_REWARDS
NOT_APPLICABLE |= {"broken_averages", "recompilation", "resume_changed"}
"""Rules that need several ranks, a GPU, boosted trees, logged rewards, batch normalization, torch.compile or a second
process."""
OF_VALIDATION = {"rising_validation_loss", "generalization_gap", "shared_samples", "validation_mismatch"}
"""Rules that need a validation."""
WEIGHTS = ("0.weight", "0.bias", "3.weight", "3.bias")


@pytest.fixture(scope="module")
def unwatched(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return bare("healthy.py", "--losses", "losses.json", folder=tmp_path_factory.mktemp("bare"))


@pytest.mark.parametrize(
    "preset",
    [
        "light",
        "standard",
        pytest.param("full", marks=pytest.mark.slow),
        pytest.param("sagemaker", marks=pytest.mark.slow),
    ],
)
def test_every_preset_keeps_the_training_bit_identical(tmp_path: Path, unwatched: Ended, preset: str) -> None:
    ended = watched(("--preset", preset), script("healthy.py"), folder=tmp_path)
    assert (ended.status, ended.out) == (0, unwatched.out)
    said = ended.show()
    assert (said["status"], said["exit_status"], said["steps"]) == ("Completed", 0, {"train": STEPS})
    judged = ["profiler_report"] if preset == "sagemaker" else list(DEFAULT)
    assert [(rule["name"], rule["status"]) for rule in said["rules"]] == [(name, "NoIssuesFound") for name in judged]
    verdicts = {rule["name"]: rule["verdict"] for rule in said["rules"]}
    if preset == "sagemaker":  # samples every 500 ms are too few in a run of few seconds
        assert set(verdicts.values()) <= {"clear", "undecided"}
    else:
        assert {name for name, verdict in verdicts.items() if verdict == "not_applicable"} == NOT_APPLICABLE
        few = set(OF_VALIDATION)
        if preset == "light":
            few.add("exploding_gradient")  # it needs 11 norms
        assert {name for name, verdict in verdicts.items() if verdict == "undecided"} <= few
    assert (said["lost"], said["damage"], said["actions"]) == ([], [], [])

    run = ended.run
    own = json.loads((unwatched.root.parent / "losses.json").read_text())
    every = 500 if preset == "sagemaker" else 1
    assert losses(run, LOSS) == {step: value for step, value in enumerate(own) if step % every == 0}
    statistics_every = {"light": 100, "standard": 50, "full": 10}.get(preset)
    expected = sorted({*FIRST_STEPS, *range(0, STEPS, statistics_every)}) if statistics_every else []
    for name in WEIGHTS if expected else ():
        for tensor in (run.tensor(name), run.tensor(f"gradient/{name}")):
            found = [row["step"] for row in tensor.statistics("l2").to_pylist()]
            assert found == expected
    layers, settings = run.tensor_names(collection="layers"), run.tensor_names(collection="hyperparameters")
    assert bool(layers) == (preset != "sagemaker")  # with light captured for rules, every 500 steps
    assert ("AdamW/lr" in settings) == (preset != "sagemaker")
    facts = {name for name in run.tensor_names(collection="checks") if name.startswith(("cross_entropy/", f"{LOSS}/"))}
    assert bool(facts) == (preset != "sagemaker")
    names = {LOSS, *facts, *(WEIGHTS if expected else ()), *gradients(expected), *layers, *settings}
    assert set(run.tensor_names()) - OF_RULES == names
    if preset == "full":
        assert run.tensor("0.weight").value(0).shape == (32, 16)


def gradients(expected: list[int]) -> list[str]:
    return [f"gradient/{name}" for name in WEIGHTS] if expected else []


@pytest.mark.slow
def test_raw_tensors_of_every_step_keep_the_training_bit_identical(tmp_path: Path, unwatched: Ended) -> None:
    ended = finish(
        [
            CONSOLE_SCRIPT,
            "run",
            "--out",
            str(tmp_path / "runs"),
            "--budget",
            "off",
            *RAW_EVERY_STEP,
            script("healthy.py"),
        ],
        tmp_path,
        env=environment(),
    )
    assert (ended.status, ended.out) == (0, unwatched.out)
    said = ended.show()
    assert {rule["name"] for rule in said["rules"]} >= {"exploding_tensor", "vanishing_gradient", "weight_update_ratio"}
    assert {rule["status"] for rule in said["rules"]} == {"NoIssuesFound"}
    unclear = {rule["name"]: rule["why"] for rule in said["rules"] if rule["verdict"] != "clear"}
    assert set(unclear) == NOT_APPLICABLE | OF_VALIDATION, unclear
    run = ended.run
    stored = [(name, step) for name in (*WEIGHTS, *gradients([0])) for step in range(STEPS)]
    assert sum(run.tensor(name).value(step).size for name, step in stored) == STEPS * 2 * (32 * 16 + 32 + 32 * 4 + 4)
    assert run.verify() == []


def test_disabled_leaves_no_run(tmp_path: Path, unwatched: Ended) -> None:
    ended = watched((), script("healthy.py"), folder=tmp_path, LEADLINE_DISABLED="1")
    assert (ended.status, ended.out, ended.err) == (0, unwatched.out, "")
    assert list(tmp_path.iterdir()) == []


def test_a_rule_from_a_file_fires_at_its_step(tmp_path: Path) -> None:
    rules = tmp_path / "my_rules.py"
    rules.write_text(LOSS_ABOVE)
    ended = watched(
        ("--rule", "my_rules.py:LossAbove:limit=20", "--rule", "high=my_rules.py:LossAbove:limit=1e6"),
        script("healthy.py"),
        "--spike-at",
        "123",
        "--losses",
        "losses.json",
        folder=tmp_path,
    )
    assert ended.status == 0
    own = json.loads((tmp_path / "losses.json").read_text())
    assert [step for step, value in enumerate(own) if value > 20] == [123]
    said = ended.show()
    (finding,) = rule(said, "loss_above")["findings"]
    assert (finding["step"], finding["last_step"], finding["tensors"]) == (123, 123, [LOSS])
    assert finding["message"] == f"{LOSS} is {own[123]:.3g}"
    assert rule(said, "high")["verdict"] == "clear"
    assert any(f"step 123  loss_above: {LOSS} is" in line for line in ended.said)


LOSS_ABOVE = '''
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired
from leadline.rules.rule import Rule


class LossAbove(Rule):
    """Fires when a loss is above a limit."""

    limit: float = 3.0

    def needs(self):
        return Needs.of("losses", "value")

    def evaluate(self, window):
        for each in window.readings("value"):
            if each.value > self.limit:
                return Fired(f"{each.tensor} is {each.value:.3g}", tensors=(each.tensor,))
        return Clear()
'''
