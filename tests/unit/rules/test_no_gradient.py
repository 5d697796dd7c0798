"""no_gradient: all gradients of an optimizer, those of the first layers, and a loss of 0."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pytest
from rule_scenarios import skipped

from leadline.errors import ConfigurationError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.no_gradient import NoGradient
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts

LAYERS = ("embed.weight", "hidden.weight", "hidden.bias", "head.weight", "head.bias")
FIRST = LAYERS[:3]
CALL = "cross_entropy_output_0"
HEALTHY = dict.fromkeys(LAYERS, 0.5)
_INFOS = {
    **{name: TensorInfo(name, ("weights" if name.endswith("weight") else "biases",), (4, 4)) for name in LAYERS},
    **{f"gradient/{name}": TensorInfo(f"gradient/{name}", ("gradients",), (4, 4)) for name in LAYERS},
    CALL: TensorInfo(CALL, ("losses",), ()),
    "Adam/lr": TensorInfo("Adam/lr", ("hyperparameters",), ()),
    "gradient_norm": TensorInfo("gradient_norm", ("gradient_norms",), ()),
    "Adam_1/gradient_norm": TensorInfo("Adam_1/gradient_norm", ("gradient_norms",), ()),
}


def step(
    at: int,
    gradients: Mapping[str, float | None],
    *,
    loss: float | None = None,
    rate: float = 0.1,
    changes: bool | None = None,
    worker: str = "rank0-1",
    call: str = "loss",
    **norms: float,
) -> list[Capture]:
    """Return a train step with the largest gradient of each parameter; None: there is no gradient."""
    found = {f"gradient/{name}": {"abs_max": value} for name, value in gradients.items() if value is not None}
    changed = {
        name: {"update_ratio": 1e-3 * (bool(value) if changes is None else changes)}
        for name, value in gradients.items()
    }
    numbers = {"Adam/lr": {"value": rate}, **{name: {"value": norm} for name, norm in norms.items()}}
    if loss is not None:
        numbers[call] = {"value": loss}
    return [Capture(at, values, infos=_INFOS, worker=worker) for values in (found, changed, numbers) if values]


def judge(parts: Iterable[Sequence[Capture]], **parameters: int) -> list[Verdict]:
    return [verdict for _, verdict in verdicts(NoGradient(**parameters), [part for group in parts for part in group])]


def outside(at: int) -> list[Capture]:
    """Return the check that a parameter with a gradient is in no optimizer."""
    name = "head_1.weight/outside_optimizers"
    return [Capture(at, {name: {"value": 1.0}}, infos={name: TensorInfo(name, ("checks",), ())})]


def test_undecided_where_the_parameters_with_a_gradient_are_in_no_optimizer() -> None:
    dead = dict.fromkeys(LAYERS, None)
    assert isinstance(judge([step(at, dead) for at in range(6)])[-1], Fired)
    verdict = judge([outside(0), *(step(at, dead) for at in range(6))])[-1]
    assert verdict == Undecided("parameters that no optimizer holds have a gradient, see no_learning")


def message(verdicts: Sequence[Verdict]) -> str:
    assert isinstance(verdicts[-1], Fired), verdicts[-1]
    return verdicts[-1].message


@pytest.mark.parametrize(
    ("gradient", "text"),
    [
        (0.0, "every gradient of 5 parameters is exactly 0 at each of 3 captured steps (0 to 2)"),
        (None, "none of 5 parameters has a gradient at each of 3 captured steps (0 to 2)"),
    ],
)
def test_fires_at_the_third_capture_without_any_gradient(gradient: float | None, text: str) -> None:
    results = judge(step(at, dict.fromkeys(LAYERS, gradient), loss=2.0) for at in range(3))
    assert [type(verdict) for verdict in results] == [Undecided, Undecided, Fired]
    assert message(results) == text
    assert isinstance(results[-1], Fired)
    assert results[-1].since_step == 0


def test_fires_for_one_of_two_optimizers() -> None:
    norms = {"gradient_norm": 1.0, "Adam_1/gradient_norm": 0.0}
    results = judge(step(at, {"head.weight": 1.0, "head.bias": 1.0}, **norms) for at in range(3))
    assert message(results) == "every gradient of Adam_1 is exactly 0 at each of 3 captured steps (0 to 2)"


@pytest.mark.parametrize("gradient", [0.0, None])
def test_fires_for_the_first_layers_after_ten_steps(gradient: float | None) -> None:
    gradients = HEALTHY | dict.fromkeys(FIRST, gradient)
    results = judge(step(at, gradients, changes=False) for at in (0, 1, 2, 5, 9))
    assert not any(isinstance(verdict, Fired) for verdict in results)
    what = "no gradient" if gradient is None else "a gradient of exactly 0"
    results = judge(step(at, gradients, changes=False) for at in (0, 1, 2, 5, 10))
    assert message(results) == (
        f"layer hidden and the 1 layer before it have {what} at each of 5 captured steps (0 to 10); "
        "layer head is the first with one"
    )


@pytest.mark.parametrize(
    ("dead", "rest", "layer"),
    [
        (("layer1/w", "layer1/b"), ("layer2/w",), "layer1"),
        (("Dense_0/kernel", "Dense_0/bias"), ("Dense_1/kernel",), "Dense_0"),
        (("net0_dense0_weight", "net0_dense0_bias"), ("net0_dense1_weight",), "net0_dense0"),
        (("w1", "b1"), ("w2",), ""),
    ],
)
def test_the_first_layer_is_found_by_its_path(dead: tuple[str, ...], rest: tuple[str, ...], layer: str) -> None:
    infos = {
        f"{prefix}{name}": TensorInfo(f"{prefix}{name}", (collection,), (4, 4))
        for name in (*dead, *rest)
        for prefix, collection in (("", "weights"), ("gradient/", "gradients"))
    }
    numbers = dict.fromkeys(dead, 0.0) | dict.fromkeys(rest, 0.5)
    captures = [
        Capture(at, values, infos=infos)
        for at in (0, 1, 2, 5, 10)
        for values in (
            {f"gradient/{name}": {"abs_max": value} for name, value in numbers.items()},
            {name: {"update_ratio": value} for name, value in numbers.items()},
        )
    ]
    verdict = judge([captures])[-1]
    if layer:
        assert message([verdict]).startswith(f"layer {layer} has a gradient of exactly 0")
    else:
        assert verdict == Undecided("some parameters have no gradient, and the names of parameters tell no layers")


def test_layers_behind_others_are_not_evaluated() -> None:
    gradients = HEALTHY | {"hidden.weight": 0.0, "hidden.bias": 0.0}
    assert judge(step(at, gradients) for at in (0, 1, 2, 10, 20))[-1] == Clear()


def test_layers_that_had_a_gradient_need_ten_captures() -> None:
    before = [step(at, HEALTHY) for at in (0, 1)]
    off = [step(at, HEALTHY | dict.fromkeys(FIRST, 0.0)) for at in range(50, 550, 50)]
    assert not isinstance(judge([*before, *off[:-1]])[-1], Fired)
    assert message(judge([*before, *off])).startswith(
        "layer hidden and the 1 layer before it have a gradient of exactly 0"
    )


def test_a_loss_call_of_zero_fires_where_no_gradient_is_known() -> None:
    results = judge(step(at, {}, loss=0.0, call=CALL) for at in range(3))
    assert message(results) == f"{CALL} is exactly 0 at each of 3 captured steps (0 to 2)"
    results = judge(step(at, dict.fromkeys(LAYERS, 0.0), loss=0.0, call=CALL) for at in range(3))
    assert message(results) == (
        f"{CALL} is exactly 0 at each of 3 captured steps (0 to 2), and no parameter has a gradient"
    )


def test_an_expression_that_is_zero_so_far_is_undecided() -> None:
    """A policy without a reward so far: zero times a log-probability."""
    zeros = dict.fromkeys(LAYERS, 0.0)
    results = judge(step(at, zeros, loss=0.0) for at in range(100))
    assert not any(isinstance(verdict, Fired) for verdict in results)
    assert results[-1] == Undecided(
        "loss is exactly 0 at each of 100 captured steps (0 to 99): there was nothing to learn from", stage="suspected"
    )
    assert message(judge(step(at, dict.fromkeys(LAYERS, None), loss=0.0) for at in range(3))).startswith("none of 5")


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("seed", range(5))
def test_a_policy_learns_from_some_steps_only(share: float, seed: int) -> None:
    """Gradients of 0 where the advantage is 0, as numpy computes loss and gradient of a policy."""
    random = np.random.default_rng(seed)
    parts = []
    for at in range(400):
        advantage = 0.0 if at < 3 or random.random() < share else random.normal()
        log_probability = -abs(random.normal())
        gradient = abs(advantage * random.normal())
        every = at < 3 or at % 10 == 0
        gradients = dict.fromkeys(LAYERS, gradient) if every else {}
        parts.append(step(at, gradients, loss=-advantage * log_probability, gradient_norm=gradient))
    assert not any(isinstance(verdict, Fired) for verdict in judge(parts))


@pytest.mark.parametrize(("idle", "remark"), [(3, ""), (14, ""), (15, "at 15 of 20"), (19, "at 19 of 20")])
def test_many_steps_that_teach_nothing_are_remarked(idle: int, remark: str) -> None:
    sizes = [*[0.0] * idle, *[0.5] * (20 - idle)]
    parts = [
        step(at, dict.fromkeys(LAYERS, size), loss=-size, gradient_norm=size, changes=True)
        for at, size in enumerate(sizes)
    ]
    last = judge(parts)[-1]
    assert isinstance(last, Clear)
    remarks = last.product.get("remarks", [])
    assert remarks == [] if not remark else remark in remarks[0]


def test_steps_that_never_teach_anything_are_undecided_and_remarked() -> None:
    results = judge(step(at, dict.fromkeys(LAYERS, 0.0), loss=0.0, gradient_norm=0.0) for at in range(10))
    assert isinstance(results[8], Undecided)
    assert not results[8].product
    assert isinstance(results[9], Undecided)
    assert results[9].product["remarks"] == [
        "the loss and every gradient were exactly 0 at 10 of 10 captured steps: their batches taught nothing (in "
        "reinforcement learning, groups whose rewards are all equal)"
    ]


def test_a_pause_that_ended_makes_the_next_one_count_later() -> None:
    """Without a loss that is 0 as well: what has rested before may rest for twice as long."""
    sizes = [1.0, *[0.0] * 5, 1.0, *[0.0] * 12]
    results = judge(step(at, dict.fromkeys(LAYERS, size), loss=1.0) for at, size in enumerate(sizes))
    assert [at for at, verdict in enumerate(results) if isinstance(verdict, Fired)] == list(range(16, 19))
    assert message(results[:17]) == "every gradient of 5 parameters is exactly 0 at each of 10 captured steps (7 to 16)"


def test_a_loss_of_zero_with_gradients_is_clear() -> None:
    assert judge(step(at, HEALTHY, loss=0.0) for at in range(4))[-1] == Clear()


@pytest.mark.parametrize(("losses", "verdict"), [([3.0, 2.0, *[1e-3] * 6], Clear), ([3.0, *[2.0] * 7], Fired)])
def test_gradients_that_end_at_convergence_are_clear(losses: list[float], verdict: type[Verdict]) -> None:
    sizes = [0.5, 0.5, *[0.0] * 6]
    parts = [
        step(at, dict.fromkeys(LAYERS, size), loss=loss)
        for at, (size, loss) in enumerate(zip(sizes, losses, strict=True))
    ]
    assert isinstance(judge(parts)[-1], verdict)


def test_steps_of_a_warm_up_at_rest_do_not_count() -> None:
    zeros = dict.fromkeys(LAYERS, 0.0)
    assert not isinstance(judge([*(step(at, zeros, rate=0.0) for at in range(5)), step(5, zeros)])[-1], Fired)


def test_skipped_steps_do_not_count() -> None:
    zeros = dict.fromkeys(LAYERS, 0.0)
    assert not isinstance(judge([*(step(at, zeros) for at in range(3)), [skipped(1), skipped(2)]])[-1], Fired)


def test_a_parameter_that_changes_had_a_gradient_at_other_steps() -> None:
    none = dict.fromkeys(LAYERS, None)
    assert not isinstance(judge(step(at, none, changes=True) for at in range(5))[-1], Fired)


def test_a_gradient_in_one_worker_is_enough() -> None:
    workers = {"rank0-1": 0.0, "rank1-2": 0.5}
    parts = [
        part
        for at in range(5)
        for worker, size in workers.items()
        for part in step(at, dict.fromkeys(LAYERS, size), worker=worker)
    ]
    assert judge([parts])[-1] == Clear()


def test_nan_is_a_gradient() -> None:
    assert judge(step(at, dict.fromkeys(LAYERS, math.nan)) for at in range(3))[-1] == Clear()


def test_is_undecided_without_gradients_or_parameters() -> None:
    assert all(isinstance(verdict, Undecided) for verdict in judge(step(at, {}, loss=1.0) for at in range(5)))


def test_the_finding_closes_when_gradients_return() -> None:
    zeros = dict.fromkeys(LAYERS, 0.0)
    results = judge([*(step(at, zeros, loss=2.0) for at in range(3)), step(3, HEALTHY, loss=2.0)])
    assert [type(verdict) for verdict in results[-2:]] == [Fired, Clear]


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="no_gradient: patience must be"):
        NoGradient(patience=1)
