"""Unmodified trainings with Gluon: bit-identical results, and captured values equal to the script's own copies."""

from __future__ import annotations

import functools
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launching import LEADLINE, MXNET, environment, finish, needs_mxnet, script
from recorded import recorded

import leadline
from leadline.reader.run import Run

LOSS = "softmaxcrossentropyloss"
COLLECTIONS = ("all", "layers", "gradient_norms", "hyperparameters", "losses:modes=eval")
EVERYTHING = [word for name in COLLECTIONS for word in ("--capture", f"{name}{',' if ':' in name else ':'}every=1")]

pytestmark = [pytest.mark.slow, needs_mxnet]


class Trained:
    """All kinds of trainings in one process, with Leadline."""

    def __init__(self, *options: str, kinds: tuple[str, ...] = ()) -> None:
        words = [MXNET, *LEADLINE[1:], "run", "--out", "runs", "--no-default-rules", *options, "--"]
        self.ended, folder = recorded([*words, MXNET, script("mxnet_kinds.py"), "truth.json", *kinds])
        assert self.ended.status == 0, self.ended.err
        self.digests: dict[str, str] = json.loads(self.ended.lines[-1])
        self.told: dict[str, Any] = json.loads((folder / "truth.json").read_text())

    @property
    def run(self) -> Run:
        return self.ended.run

    def first_step(self, kind: str) -> int:
        return int(self.told["first_steps"][kind])


@functools.cache
def bare_digests() -> dict[str, str]:
    ended, _ = recorded([MXNET, script("mxnet_kinds.py"), "truth.json"])
    assert ended.status == 0, ended.err
    return dict(json.loads(ended.lines[-1]))


@pytest.fixture(scope="module")
def trained() -> Trained:
    return Trained("--budget", "off", *EVERYTHING)


@pytest.mark.parametrize("preset", ["light", "standard", "full"])
def test_presets_leave_every_bit(preset: str) -> None:
    trained = Trained("--preset", preset, "--budget", "off")
    assert trained.digests == bare_digests()
    (document,) = trained.run.worker_documents().values()
    assert document.off is None, document.off


def test_losses_that_are_read_a_step_later_are_the_same(trained: Trained) -> None:
    alone = Trained("--preset", "light", "--budget", "off", "--capture", "losses:every=1")
    assert losses_of(alone.run) == losses_of(trained.run)


def losses_of(run: Run) -> dict[tuple[str, int], float]:
    """Return the losses of all train steps by tensor and step."""
    return {
        (name, step): run.tensor(name).statistic("value", step, mode="train")
        for name in run.tensor_names(collection="losses")
        for step in run.tensor(name).steps(mode="train")
    }


def test_capturing_everything_leaves_every_bit(trained: Trained) -> None:
    assert trained.digests == bare_digests()
    (document,) = trained.run.worker_documents().values()
    assert (document.off, document.steps["train"]) == (None, trained.told["steps"])


def test_captured_values_are_those_of_the_scripts_copies(trained: Trained) -> None:
    run = trained.run
    assert {entry["kind"] for entry in trained.told["truth"]} >= {"plain", "hybridized", "several_contexts", "reduced"}
    for entry in trained.told["truth"]:
        kind, step, expected = entry["kind"], entry["step"], entry["values"]
        for name, value in expected.items():
            if name == "loss":
                losses = [tensor for tensor in run.tensor_names(collection="losses") if tensor.startswith(LOSS)]
                told = [tensor for tensor in losses if step in run.tensor(tensor).steps(mode="train")]
                values = [run.tensor(tensor).statistic("value", step) for tensor in told]
                assert values == [pytest.approx(value, rel=1e-6)], (kind, step)
            elif kind == "clipped" and name.startswith("gradient/"):
                continue  # see test_the_norm_before_clipping_is_rescaled_as_the_gradients_are
            else:
                assert run.tensor(name).statistic("l2", step) == pytest.approx(value, rel=1e-5), (kind, step, name)


def test_the_norm_before_clipping_is_rescaled_as_the_gradients_are(trained: Trained) -> None:
    run, first = trained.run, trained.first_step("clipped")
    for entry in (entry for entry in trained.told["truth"] if entry["kind"] == "clipped"):
        squares = [value**2 for name, value in entry["values"].items() if name.startswith("gradient/")]
        before = run.tensor("gradient_norm_before_clipping").statistic("value", entry["step"])
        assert before == pytest.approx(sum(squares) ** 0.5, rel=1e-4)
        assert run.tensor("gradient_norm").statistic("value", entry["step"]) == pytest.approx(0.05, rel=1e-3)
        assert run.tensor("gradient_clipped").statistic("value", entry["step"]) == 1.0
    assert run.tensor("gradient_clipped").steps()[0] == first


def test_a_learning_rate_schedule_is_followed_without_calling_it(trained: Trained) -> None:
    first = trained.first_step("scheduled")
    rates = [trained.run.tensor("SGD/learning_rate").statistic("value", first + at) for at in range(8)]
    assert rates == pytest.approx([0.1, 0.1, 0.05, 0.05, 0.025, 0.025, 0.0125, 0.0125])


def test_an_update_that_amp_skips_is_a_skipped_step(trained: Trained) -> None:
    events = [event for event in trained.run.timeline().to_pylist() if event["name"] == "step_skipped"]
    evaluated = len(trained.run.steps(mode="eval"))  # the timeline counts the steps of all modes
    assert [event["step"] - evaluated for event in events] == [trained.first_step("scaled_loss") + 3]


def test_an_evaluation_outside_of_record_has_its_own_steps_and_losses(trained: Trained) -> None:
    run = trained.run
    (name,) = (tensor for tensor in run.tensor_names(collection="losses") if "eval" in run.tensor(tensor).modes())
    assert name.startswith(LOSS)
    assert run.tensor(name).steps(mode="eval") == run.steps(mode="eval") == [0, 1, 2, 3]


def test_the_state_of_the_optimizer_has_names(trained: Trained) -> None:
    names = {name.rpartition("/")[0] for name in trained.run.tensor_names(collection="optimizer_variables")}
    assert {"Adam/mean", "Adam/variance", "NAG/momentum", "SGD/momentum", "RMSProp/n"} <= names


def test_waits_for_batches_of_a_loader_are_a_phase(trained: Trained) -> None:
    waits = [event for event in trained.run.timeline().to_pylist() if event["name"] == "data"]
    modes = [event["phase"] for event in waits]
    assert modes[:12] == [*["train"] * 4, *["eval"] * 2] * 2  # only one kind has loaders


def test_blocks_inside_a_hybridized_block_are_captured_if_they_are_asked_for_by_name() -> None:
    captured = [
        word for what in ("layers:regex=.", "weights:", "biases:") for word in ("--capture", f"{what},every=2,raw=true")
    ]
    captured = [word.replace(":,", ":") for word in captured]
    trained = Trained("--budget", "off", *captured, kinds=("hybridized", "static_shape"))
    run, bare = trained.run, bare_digests()
    assert trained.digests == {kind: bare[kind] for kind in trained.digests}
    for net, first, last, steps in (("0", "0", "1", (2, 4, 6)), ("1", "2", "3", (10, 12, 14))):
        for step in steps:
            x = run.tensor(f"hybridsequential{net}_input_0").value(step)
            weight, bias = (run.tensor(f"dense{first}_{part}").value(step) for part in ("weight", "bias"))
            np.testing.assert_allclose(run.tensor(f"dense{first}_output_0").value(step), x @ weight.T + bias, atol=1e-5)
            outputs = run.tensor(f"hybridsequential{net}_output_0").value(step)
            assert (run.tensor(f"dense{last}_output_0").value(step) == outputs).all()
    hidden, relu = (run.tensor(f"dense0_{part}output_0").value(2) for part in ("", "relu_"))
    assert (relu == np.maximum(hidden, 0)).all()


def test_the_example_of_the_page(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "mxnet.md").read_text()
    _, _, rest = page.partition("$ cat train.py\n")
    (tmp_path / "train.py").write_text(rest.partition("$ leadline run train.py")[0])
    ended = finish([MXNET, *LEADLINE[1:], "run", "--", MXNET, "train.py"], tmp_path, env=environment())
    assert ended.status == 0, ended.err
    (folder,) = (tmp_path / "leadline-runs").iterdir()
    run = leadline.open_run(str(folder))
    for name, statistic, step in re.findall(r'run\.tensor\("(.+)"\)\.statistic\("(\w+)", step=(\d+)\)', page):
        assert math.isfinite(run.tensor(name).statistic(statistic, step=int(step)))
