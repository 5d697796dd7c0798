"""closing_remarks: short trainings whose loss still falls, and validations that are no better than guessing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from leadline.errors import ConfigurationError
from leadline.records.formatting import significant
from leadline.records.loss_facts import LossKind
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Undecided
from leadline.rules.losses.closing_remarks import ClosingRemarks
from leadline.testing.runs import ArrayStatistics, Capture, Part
from leadline.testing.windows import verdicts

OF_COUNTS = ("poisson_nll_loss_output_0", "PoissonNLLLoss_output_0", "gaussian_nll_loss_output_0")
INFOS = {
    info.name: info
    for info in (
        TensorInfo("loss", ("losses",), ()),
        TensorInfo("mse_loss_output_0", ("losses",), ()),
        *(
            TensorInfo(f"{name}_output_0", ("losses",), ())
            for name in ("l1_loss", "smooth_l1_loss", "mean_absolute_error", "poisson", "poisson_nll_loss")
        ),
        TensorInfo("accuracy", ("metrics",), ()),
        TensorInfo("val_acc", ("metrics",), ()),
        TensorInfo("val_loss", ("metrics",), ()),
        TensorInfo("val loss", ("metrics", "printed"), ()),
        TensorInfo("val accuracy", ("metrics", "printed"), ()),
        TensorInfo("nll_loss_output_0", ("losses",), ()),
        *[TensorInfo(name, ("losses",), ()) for name in OF_COUNTS],
        TensorInfo("train-logloss", ("losses", "training_set"), ()),
        TensorInfo("nll_loss_input_1", ("labels",), (32,), "int64"),
        TensorInfo("mse_loss_input_1", ("labels",), (32,)),
        TensorInfo("a.weight", ("weights",), (4, 4)),
        TensorInfo("grad_norm", ("metrics", "role:gradient_norm"), ()),
        TensorInfo("gradient_norm", ("gradient_norms",), ()),
        TensorInfo("gradient_norm_before_clipping", ("gradient_norms",), ()),
        TensorInfo("Adam/rate_share", ("checks",), ()),
        TensorInfo("Adam/schedule_steps", ("checks",), ()),
        TensorInfo("Adam/cosine_progress", ("checks",), ()),
    )
}


def remarks(parts: Sequence[Part], **parameters: int) -> list[str]:
    _, verdict = verdicts(ClosingRemarks(**parameters), parts)[-1]
    assert isinstance(verdict, Clear)
    return list(verdict.product["remarks"])


def losses(values: Sequence[float], name: str = "loss") -> list[Part]:
    return [Capture(step, {name: {"value": value}}, infos=INFOS) for step, value in enumerate(values)]


def falling(steps: int) -> list[float]:
    return [2.0 * 0.99**step + 0.01 * (step % 2) for step in range(steps)]


def validated(name: str, *values: float, after: int = 300, mode: str = "eval") -> list[Part]:
    train = losses([1.0] * after)
    return [
        *train,
        *(
            Capture(after + at, {name: {"value": value}}, mode=mode, mode_step=at, infos=INFOS)
            for at, value in enumerate(values)
        ),
    ]


def classes(*counts: float) -> list[Part]:
    return [ArrayStatistics(0, {"nll_loss_input_1": {"class_counts": list(counts)}}, infos=INFOS)]


def test_one_of_two_competing_losses_has_won() -> None:
    def both(low: float, high: float, steps: int = 60, **labels: float) -> list[str]:
        given = {f"squared_error/{fact}": {"value": value} for fact, value in labels.items()}
        infos = INFOS | {name: TensorInfo(name, ("checks",), ()) for name in given}
        return remarks(
            [
                Capture(
                    step,
                    {
                        "loss": {"value": 1.4 if step < 10 else low},
                        "nll_loss_output_0": {"value": 0.7 if step < 10 else high},
                        **(given if step < 2 else {}),
                    },
                    infos=infos,
                )
                for step in range(steps)
            ]
        )

    (won,) = both(0.01, 9.0)
    assert won.startswith("loss has fallen to 0.01, and nll_loss_output_0 has risen from 0.7 to 9")
    assert not any("compete" in remark for remark in (*both(0.1, 9.0), *both(0.01, 2.0), *both(0.01, 9.0, 45)))
    assert not any("compete" in remark for remark in both(-0.01, 9.0))
    # a critic that has learned the values of an actor, whose loss is their negative; and one that tells 0 from 1
    kind = float(LossKind.SQUARED_ERROR)
    of_critic = both(0.01, 9.0, loss_kind=kind, label_min=-3.0, label_max=1.5, are_labels_binary=0.0)
    of_network = both(0.01, 9.0, loss_kind=kind, label_min=0.0, label_max=1.0, are_labels_binary=1.0)
    assert not any("compete" in remark for remark in of_critic)
    assert any("compete" in remark for remark in of_network)


def test_a_short_training_whose_loss_still_falls() -> None:
    assert remarks(losses(falling(60))) == [
        "the loss was still falling after 60 updates, so train for longer to judge the model"
    ]
    assert len(remarks(losses(falling(99)))) == 1
    assert remarks(losses(falling(100))) == []
    assert len(remarks(losses(falling(100)), updates=101)) == 1
    assert remarks(losses([*falling(30), math.nan, *falling(29)])) == []


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(falling(4), id="too few losses"),
        pytest.param([1.0 + 0.1 * (step % 3) for step in range(60)], id="noise"),
        pytest.param([1.0 - 1e-6 * step for step in range(60)], id="a fall too small to matter"),
        pytest.param([*falling(30), *[1.5] * 30], id="a loss that has settled"),
        pytest.param([*falling(10), *[1.5 - 1e-6 * step for step in range(10)]], id="few losses, and settled"),
        pytest.param([math.nan] * 60, id="not a number"),
    ],
)
def test_other_trainings_are_not_short(values: list[float]) -> None:
    if all(map(math.isnan, values)):
        assert remarks([*losses(values), *losses([1.0] * 10)]) == []
    else:
        assert remarks(losses(values)) == []


def test_rounds_of_boosting_are_no_updates() -> None:
    assert remarks(losses(falling(60), "train-logloss")) == []


def test_an_accuracy_that_a_constant_reaches() -> None:
    labels = classes(95, 5)
    assert remarks([*labels, *validated("accuracy", 0.94, 0.96)]) == [
        "accuracy of the last validation is 0.95, no better than always naming the most frequent label (0.95)"
    ]
    assert remarks([*labels, *validated("accuracy", 0.96)]) == []
    assert len(remarks([*labels, *validated("val_acc", 95.0, mode="train")])) == 1
    assert remarks([*labels, *validated("val_acc", 97.0, mode="train")]) == []


def test_losses_that_guessing_reaches() -> None:
    entropy = math.log(2)
    assert len(remarks([*classes(50, 50), *validated("nll_loss_output_0", entropy)])) == 1
    assert remarks([*classes(50, 50), *validated("nll_loss_output_0", 0.9 * entropy)]) == []
    spread: list[Part] = [Capture(0, {"mse_loss_input_1": {"variance": 4.0}}, infos=INFOS)]
    assert len(remarks([*spread, *validated("mse_loss_output_0", 4.0)])) == 1
    assert remarks([*spread, *validated("mse_loss_output_0", 3.0)]) == []


@pytest.mark.parametrize("batches", [1, 4])
def test_absolute_and_poisson_losses_that_guessing_reaches(batches: int) -> None:
    """The labels of several batches are taken together: each alone has another median."""
    labels = np.random.default_rng(0).poisson(2.0, (batches, 64)) + np.arange(batches)[:, None]
    flat = labels.ravel().astype(float)
    rate = flat.mean()
    of_labels = np.where(flat > 1, flat * np.log(np.maximum(flat, 1)) - flat + np.log(2 * np.pi * flat.clip(1)) / 2, 0)
    level = rate - rate * math.log(rate)
    perfect = float((flat - flat * np.log(np.maximum(flat, 1))).mean())
    absolute = float(abs(flat - np.median(flat)).mean())
    for name, kind, at_guessing, gain in (
        ("l1_loss", None, absolute, absolute),
        ("mean_absolute_error", None, absolute, absolute),
        ("poisson", None, level, level - perfect),
        ("poisson_nll_loss", LossKind.POISSON_NLL, level, level - perfect),
        ("poisson_nll_loss", LossKind.POISSON_LIKELIHOOD, level + of_labels.mean(), level - perfect),
    ):
        info = {f"{name}_input_1": TensorInfo(f"{name}_input_1", ("labels",), (64,))}
        fact = f"{name}/loss_kind"
        infos = {fact: TensorInfo(fact, ("checks",), (), "float64")}
        parts: list[Part] = []
        if kind is not None:
            parts += [Capture(0, {fact: {"value": float(kind)}}, infos=infos)]
        for step, batch in enumerate(labels):
            means = {"quantile_means": sorted(batch.tolist())}
            parts += [
                Capture(step, {f"{name}_input_1": {"variance": batch.var(), "mean": batch.mean()}}, infos=info),
                ArrayStatistics(step, {f"{name}_input_1": means}, infos=info),
            ]
        assert len(remarks([*parts, *validated(f"{name}_output_0", at_guessing)])) == 1
        assert remarks([*parts, *validated(f"{name}_output_0", at_guessing - 0.03 * gain)]) == []
    # without the graph it is not known whether the loss has the part of the labels, nor of Huber's where it bends
    assert remarks([*parts[1:], *validated("poisson_nll_loss_output_0", level)]) == []
    assert remarks([*parts[1:], *validated("smooth_l1_loss_output_0", absolute)]) == []


@pytest.mark.parametrize(
    ("metric", "at_guessing", "perfect"),
    [
        ("l2", 0.25, 0.0),
        ("rmse", 0.5, 0.0),
        ("quantile", 0.3, 0.0),
        ("mlogloss", math.log(2), 0.0),
        ("poisson", -4.0, -5.0),  # a loss that may be negative: what counts is the distance from a perfect predictor
        ("poisson-nloglik", 2.0, 1.0),
        ("auc", 0.5, 1.0),
        ("ndcg@5", 0.6, 1.0),
    ],
)
def test_boosters_that_learn_nothing(metric: str, at_guessing: float, perfect: float) -> None:
    name = f"valid_0-{metric}"
    facts = {f"{name}/{fact}": value for fact, value in (("guess_level", at_guessing), ("perfect_level", perfect))}
    checks = {fact: TensorInfo(fact, ("checks",), (), "float64") for fact in facts}
    known = [Capture(0, {fact: {"value": value} for fact, value in facts.items()}, infos=checks)]
    for gain, count in ((0.0, 1), (-0.1, 1), (0.1, 0)):
        value = at_guessing + gain * (perfect - at_guessing)
        scored = TensorInfo(name, ("losses", "validation_set"), ())
        values = [Capture(step, {name: {"value": value}}, infos={name: scored}) for step in range(30)]
        found = remarks([*known, *values])
        assert len(found) == count, found
        assert all(remark.startswith(f"{name} of the last validation is") for remark in found)
        assert not remarks(values)


def test_few_or_no_labels_say_nothing() -> None:
    assert remarks([*classes(60, 39), *validated("accuracy", 0.1)]) == []
    assert remarks(validated("accuracy", 0.1)) == []


def test_only_the_latest_validation_counts() -> None:
    first = validated("accuracy", 0.2)
    later = [
        *losses([1.0] * 350)[302:],
        Capture(360, {"accuracy": {"value": 0.9}}, mode="eval", mode_step=1, infos=INFOS),
    ]
    assert remarks([*classes(50, 50), *first, *later]) == []


def test_a_training_of_few_updates() -> None:
    assert remarks(losses(falling(8))) == [
        "the loss was still falling after 8 updates, so train for longer to judge the model"
    ]


def test_a_training_that_stays_at_the_level_of_guessing() -> None:
    at_guessing = [math.log(2) + 0.01 * (step % 3) for step in range(120)]
    (remark,) = remarks([*classes(50, 50), *losses(at_guessing, "nll_loss_output_0")])
    assert remark.startswith("nll_loss_output_0 stayed at 0.7031 in the last 60 of 120 updates, no better than")
    assert remarks([*classes(50, 50), *losses([0.9 * loss for loss in at_guessing], "nll_loss_output_0")]) == []
    for of_counts in OF_COUNTS:
        assert remarks([*classes(50, 50), *losses(at_guessing, of_counts)]) == []
    assert remarks([*classes(50, 50), *losses([3 * loss for loss in at_guessing], "nll_loss_output_0")]) == []
    assert remarks([*classes(50, 50), *losses(at_guessing[:49], "nll_loss_output_0")]) == []
    assert len(remarks([*classes(50, 50), *losses((at_guessing * 3)[:299], "nll_loss_output_0")])) == 1
    assert remarks([*classes(50, 50), *losses((at_guessing * 3)[:300], "nll_loss_output_0")]) == []
    assert remarks(losses(at_guessing, "nll_loss_output_0")) == []
    sizes = {"a.weight": 1e-9, "b.weight": 1e-8, "c.weight": 0.02}
    gradients = {f"gradient/{name}": {"abs_mean": size} for name, size in sizes.items()}
    infos = {name: TensorInfo(name, ("gradients",), (4, 4)) for name in gradients}
    vanishing = [*classes(50, 50), Capture(0, gradients, infos=infos), *losses(at_guessing, "nll_loss_output_0")]
    (remark,) = remarks(vanishing)
    assert "; the gradients vanish, from 0.02 at c.weight to 1e-9 at a.weight: the first 2 of 3 are below" in remark


@pytest.mark.parametrize(
    ("values", "ratio", "count"),
    [
        pytest.param([math.log(2)] * 40, 1e-3, 1, id="a policy compared with itself"),
        pytest.param([2.0, 1.5, 1.0, *[math.log(2)] * 30], 1e-3, 1, id="the second of two stages"),
        pytest.param([*falling(30), *[2.0**-23] * 40], 1e-3, 0, id="no error is left"),
        pytest.param([math.log(2)] * 29, 1e-3, 0, id="too few values"),
        pytest.param([0.0] * 40, 1e-3, 0, id="nothing to learn from"),
        pytest.param([math.log(2)] * 40, 1e-6, 0, id="weights that do not move"),
        pytest.param([*[math.log(2)] * 40, math.nextafter(math.log(2), 1)], 1e-3, 0, id="one that differs by a bit"),
    ],
)
def test_a_loss_that_never_changes(values: list[float], ratio: float, count: int) -> None:
    updates: list[Part] = [Capture(0, {"a.weight": {"update_ratio": ratio}}, infos=INFOS)]
    told = [remark for remark in remarks([*updates, *losses(values)]) if "captured steps, to the bit" in remark]
    assert len(told) == count
    others = [Capture(step, {"mse_loss_output_0": {"value": step}}, infos=INFOS) for step in range(40)]
    assert not any("to the bit" in remark for remark in remarks([*updates, *losses(values), *others]))


@pytest.mark.parametrize(("ratio", "values", "count"), [(1e-6, [2.0, 2.01] * 60, 1), (1e-4, [2.0, 2.01] * 60, 0)])
def test_weights_that_hardly_move(ratio: float, values: list[float], count: int) -> None:
    updates: list[Part] = [Capture(0, {"a.weight": {"update_ratio": ratio}}, infos=INFOS)]
    found = remarks([*updates, *losses(values)])
    assert len(found) == count
    assert all(remark.startswith("half of the weights moved by less than 0.00012") for remark in found)
    assert remarks([*updates, *losses(falling(120))]) == []


@pytest.mark.parametrize(
    ("name", "values", "ratio", "count"),
    [
        ("val_loss", (0.7138, 0.7138, 0.7138), 1e-3, 1),
        ("val_loss", (0.7138, 0.7138), 1e-3, 0),
        ("val_loss", (0.7138, 0.7138, 0.71381), 1e-3, 0),
        ("val_loss", (0.7139, 0.7138, 0.7138, 0.7138), 1e-3, 0),  # it followed once
        ("val_loss", (0.7138, 0.7138, 0.7138), 1e-6, 0),  # nothing moves: no_learning
        ("val_loss", (0.0, 0.0, 0.0), 1e-3, 0),
        ("val_acc", (0.7138, 0.7138, 0.7138), 1e-3, 0),
        ("val loss", (0.7138, 0.7138, 0.7138), 1e-3, 1),
        ("val loss", (0.7, 0.7, 0.7), 1e-3, 0),  # as printed
    ],
)
def test_evaluations_that_never_change(name: str, values: Sequence[float], ratio: float, count: int) -> None:
    parts: list[Part] = [Capture(0, {"a.weight": {"update_ratio": ratio}}, infos=INFOS), *losses([1.0, 1.1] * 150)]
    parts += [
        Capture(300 + at, {"loss": {"value": 1.0}, name: {"value": value}}, infos=INFOS)
        for at, value in enumerate(values)
    ]
    found = [remark for remark in remarks(parts) if "evaluations" in remark]
    assert len(found) == count
    assert all(f"{name} is {significant(values[0])} in all 3 evaluations" in remark for remark in found)


def test_undecided_without_losses() -> None:
    assert isinstance(verdicts(ClosingRemarks(), classes(50, 50))[-1][1], Undecided)


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="closing_remarks: updates must be"):
        ClosingRemarks(updates=0)


@pytest.mark.parametrize(("values", "count"), [((0.72, 0.7), 1), ((0.7,), 0), ((71.5, 70.0), 1), ((0.8, 0.76), 0)])
def test_a_printed_accuracy_may_be_half_a_decimal_better(values: tuple[float, ...], count: int) -> None:
    parts = [*classes(70.0, 30.0)]
    for at, value in enumerate(values):
        parts += [Capture(at, {"loss": {"value": 1.0}, "val accuracy": {"value": value}}, infos=INFOS)]
    assert len(remarks(parts)) == count


def scheduled(count: int, **of_step: Callable[[int], float]) -> list[Part]:
    """Return losses with the checks of a scheduler at every tenth step."""
    return [
        Capture(
            step,
            {"loss": {"value": 1.0}}
            | ({f"Adam/{check}": {"value": value(step)} for check, value in of_step.items()} if not step % 10 else {}),
            infos=INFOS,
        )
        for step in range(count)
    ]


def test_a_learning_rate_that_is_still_in_its_warm_up_is_remarked() -> None:
    def rising(step: int) -> float:
        return 0.01 + 0.18 * step / 300

    (remark,) = remarks(scheduled(300, rate_share=rising, schedule_steps=lambda step: step // 100))
    assert remark == (
        "the learning rate of Adam was still rising after 291 updates, with 2 steps of its scheduler, at 18 % of its "
        "group's: a warm-up that counts updates needs scheduler.step() after each one"
    )
    assert len(remarks(scheduled(300, rate_share=rising))) == 1
    assert remarks(scheduled(50, rate_share=rising), updates=1) == []


@pytest.mark.parametrize(
    "share",
    [
        pytest.param(lambda step: 0.02 + 0.19 * step / 290, id="it has come far enough"),
        pytest.param(lambda step: 0.1, id="it never changes"),
        pytest.param(lambda step: 0.19 - step / 10000, id="it falls"),
        pytest.param(lambda step: 0.001 * min(step, 290 - step), id="it rises and falls"),
        pytest.param(lambda step: math.nan, id="it is not a number"),
    ],
)
def test_other_learning_rates_are_not(share: Callable[[int], float]) -> None:
    assert remarks(scheduled(300, rate_share=share)) == []


def test_a_cosine_beyond_its_end_is_remarked() -> None:
    (remark,) = remarks(scheduled(300, cosine_progress=lambda step: step / 100))
    assert remark.startswith("the scheduler of Adam was stepped 2.9 times as often as the T_max of its cosine")
    assert remarks(scheduled(300, cosine_progress=lambda step: 1.2 * step / 290)) == []


def test_schedulers_that_make_steps_together_are_remarked() -> None:
    (remark,) = remarks(scheduled(300, schedulers=lambda step: 2 if step else 0))
    assert remark.startswith("2 schedulers change the learning rate of Adam, each from what the others have made of it")
    assert remarks(scheduled(300, schedulers=lambda step: 2 if step in (10, 20) else 1)) == []


NORMS = [1.0, 2.0, 0.5, 4.0, 3.0, 1.5]


@pytest.mark.parametrize(
    ("logged", "said"),
    [
        (NORMS, ""),
        ([1.0] * 6, ""),  # as clipping left them
        ([norm * 1.04 for norm in NORMS], ""),
        ([norm * 3 for norm in NORMS[:4]], ""),
        ([math.nan] * 6, ""),
        ([norm * 3 for norm in NORMS], "grad_norm was 3 times the norm of the gradients at all 6 steps"),
        ([norm + 1 for norm in NORMS], "grad_norm was 1.25 to 3 times the norm of the gradients at all 6 steps"),
    ],
)
def test_a_logged_norm_that_is_not_that_of_the_gradients_is_remarked(logged: list[float], said: str) -> None:
    parts = [
        Capture(
            step,
            {
                "loss": {"value": 1.0 + step % 2},
                "gradient_norm": {"value": min(norm, 1.0)},
                "gradient_norm_before_clipping": {"value": norm},
                "grad_norm": {"value": value},
            },
            infos=INFOS,
        )
        for step, (norm, value) in enumerate(zip(NORMS, logged, strict=False))
    ]
    found = [remark for remark in remarks(parts) if "norm" in remark]
    assert [remark.startswith(said) for remark in found] == ([True] if said else [])


def with_checks(**counts: float) -> list[Part]:
    """Return losses of 120 steps with checks of a function at every tenth."""
    checks = {f"train_step/{check}": count for check, count in counts.items()}
    infos = INFOS | {name: TensorInfo(name, ("checks",), (), "float64") for name in checks}
    values = {name: {"value": count} for name, count in checks.items()}
    return [
        Capture(step, {"loss": {"value": 1.0}, **(values if step % 10 == 0 else {})}, infos=infos)
        for step in range(120)
    ]


@pytest.mark.parametrize(("steps", "is_told"), [(4.0, False), (5.0, True), (0.0, False)])
def test_one_key_for_all_steps_is_remarked(steps: float, is_told: bool) -> None:
    told = [remark for remark in remarks(with_checks(same_random_keys=steps)) if "random" in remark]
    start = "all random numbers of train_step were drawn by the same key at all 5 captured steps, so that dropout drops"
    assert bool(told) == is_told
    assert not told or told[0].startswith(start)


def test_parameters_that_stay_those_of_the_start_are_remarked() -> None:
    (told,) = [remark for remark in remarks(with_checks(uses_initial_parameters=6.0)) if "began with" in remark]
    assert told.startswith(
        "train_step is given the current parameters and does not use them: it computes with 6 arrays"
    )


def test_indices_beyond_a_table_are_remarked() -> None:
    numbers = {"clamped_indices": 0.375, "different_clamped": 64.0, "largest_index": 599.0, "table_length": 400.0}
    (said,) = [remark for remark in remarks(with_checks(**numbers)) if "indices" in remark]
    assert said.startswith(
        "38 % of the indices of a step look up rows of train_step at or beyond its length, 400, up to 599: JAX gives "
        "its last row for all 64 different ones"
    )
    assert not [remark for remark in remarks(with_checks(clamped_indices=0.375)) if "indices" in remark]
