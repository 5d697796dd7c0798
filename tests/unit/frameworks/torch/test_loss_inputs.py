"""Facts about what loss calls are given: mistakes, healthy losses, values against numpy, and their capture."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hooked_run import scalars, watch
from loss_programs import BINARY, CLASSES, HEALTHY, MISTAKES, NUMBERS, ONE_HOT, SEVERAL, UNFITTING, X, out
from torch import nn
from torch.autograd.graph import save_on_cpu
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from leadline.frameworks.torch.capture.loss_inputs import facts_of
from leadline.frameworks.torch.capture.loss_terms import LossTerms
from leadline.records import loss_facts as facts
from leadline.records.loss_facts import FACTS, Activation, LossKind
from leadline.rules.losses.given_loss import GivenLoss
from leadline.rules.losses.loss_mistakes import find_mistake
from leadline.rules.losses.unsuitable_losses import find_unfitting_loss

Train = Callable[[nn.Module], torch.Tensor]


def given(loss: torch.Tensor) -> list[GivenLoss]:
    """Return the loss calls that a tensor was computed from."""
    with torch.no_grad():
        terms = LossTerms(lambda node: None, lambda call: None).find(loss.grad_fn)
        return [GivenLoss(f"{index}", "", facts_of(term)) for index, term in enumerate(terms)]


def mistakes(loss: torch.Tensor) -> set[str]:
    return {mistake.name for call in given(loss) if (mistake := find_mistake(call)) is not None}


def unfitting(loss: torch.Tensor) -> set[str]:
    return {mistake.name for call in given(loss) if (mistake := find_unfitting_loss(call)) is not None}


def only(loss: torch.Tensor) -> dict[str, float]:
    (call,) = given(loss)
    return dict(call.numbers)


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_mistake_is_found(name: str) -> None:
    mistake, compute = MISTAKES[name]
    assert mistakes(compute()) == {mistake}


@pytest.mark.parametrize("name", UNFITTING)
def test_an_unfitting_loss_is_no_mistake(name: str) -> None:
    mistake, compute = UNFITTING[name]
    loss = compute()
    assert (unfitting(loss), mistakes(loss)) == ({mistake}, set())


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_healthy_loss_has_no_mistake(name: str) -> None:
    loss = HEALTHY[name]()
    assert (mistakes(loss), unfitting(loss)) == (set(), set())


@pytest.mark.parametrize(("rows", "is_known"), [(1, False), (7, False), (8, True)])
def test_shares_of_rows_of_labels_need_eight_rows(rows: int, is_known: bool) -> None:
    labels = torch.tensor([[1.0, 1.0, 0.0]] * rows)
    found = only(F.binary_cross_entropy(nn.Sequential(nn.Linear(8, 3), nn.Sigmoid())(torch.ones(rows, 8)), labels))
    assert (facts.ONE_HOT_SHARE in found, facts.MULTI_HOT_SHARE in found) == (is_known, is_known)


def test_the_numbers_equal_those_of_numpy() -> None:
    model = nn.Sequential(nn.Linear(8, 1), nn.Tanh())
    labels = NUMBERS.numpy()
    for loss in (F.mse_loss(model(X), NUMBERS), ((model(X) - NUMBERS) ** 2).mean(), (NUMBERS - model(X)).abs().mean()):
        found = only(loss)
        expected = (labels.min(), labels.max(), (np.abs(labels) > 1.002).mean())
        assert [found[name] for name in (facts.LABEL_MIN, facts.LABEL_MAX, facts.OUT_OF_REACH_SHARE)] == pytest.approx(
            expected, rel=1e-4
        )
    found = only(F.binary_cross_entropy_with_logits(out(4), SEVERAL))
    sums = SEVERAL.numpy().sum(1)
    assert found[facts.MULTI_HOT_SHARE] == pytest.approx((sums > 1).mean())
    assert found[facts.ONE_HOT_SHARE] == pytest.approx((sums == 1).mean())
    scores = out(4)
    found = only(F.nll_loss(scores, CLASSES))
    values = scores.detach().numpy()
    assert found[facts.EXP_SUM_ERROR] == pytest.approx(np.abs(np.exp(values).sum(1) - 1).max(), rel=1e-5)
    assert found[facts.SUM_ERROR] == pytest.approx(np.abs(values.sum(1) - 1).max(), rel=1e-5)
    assert found[facts.PREDICTION_MIN] == values.min()


def test_the_negative_of_a_loss_is_known_in_training_only(tmp_path: Path) -> None:
    def negated(folder: str, sign: float, *, is_training: bool = True) -> set[float]:
        model = nn.Linear(8, 4).train(is_training)
        found = checks(tmp_path / folder, step_once(model, lambda model: sign * F.cross_entropy(model(X), CLASSES)))
        return set(found[f"cross_entropy/{facts.IS_NEGATED}"].values())

    assert negated("1", -1.0) == {1.0}
    assert negated("2", 0.5) == {0.0}
    assert negated("3", -1.0, is_training=False) == {0.0}


def test_labels_of_an_observed_absolute_error_are_known(tmp_path: Path) -> None:
    found = checks(tmp_path, step_once(nn.Linear(8, 1), lambda model: F.l1_loss(model(X), BINARY)))
    assert set(found[f"absolute_error/{facts.ARE_LABELS_BINARY}"].values()) == {1.0}


@pytest.mark.parametrize("ignored", [-100, 1])
def test_the_weight_of_labels_is_that_of_numpy(ignored: int) -> None:
    drawn = np.random.default_rng(3)
    weights, labels = drawn.uniform(0.1, 4, 5).astype(np.float32), drawn.integers(0, 4, 40)
    logits = torch.randn(40, 5, requires_grad=True)
    loss = F.cross_entropy(logits, torch.tensor(labels), torch.tensor(weights), ignore_index=ignored)
    kept = labels[labels != ignored]
    expected = weights[kept].mean() / weights[np.unique(kept)].mean()
    assert only(loss)[facts.WEIGHT_OF_LABELS] == pytest.approx(expected, rel=1e-6)


def test_weights_need_enough_labels_and_pairs_one_label() -> None:
    logits, labels = torch.randn(15, 3, requires_grad=True), torch.arange(15) % 3
    assert facts.WEIGHT_OF_LABELS not in only(F.cross_entropy(logits, labels, torch.ones(3)))
    assert facts.WEIGHT_OF_LABELS not in only(
        F.cross_entropy(torch.randn(16, 3, requires_grad=True), labels.new_zeros(16))
    )
    first, second = (torch.randn(4, 3, requires_grad=True) * 1 for _ in range(2))
    zeros, own = torch.zeros(4, dtype=torch.long), torch.arange(4)
    for pairs in (
        first @ second.t() / 0.1,
        torch.einsum("ad,bd->ab", first, second),
        torch.ones(()).exp() * (first @ second.mT),
    ):
        assert [only(F.cross_entropy(pairs, given))[facts.IS_ONE_OF_PAIRS] for given in (zeros, own)] == [1.0, 0.0]
    both = torch.nn.functional.normalize(first, dim=1)
    alike, diagonal = both @ both.T / 0.1, torch.eye(4, dtype=torch.bool)
    assert only(F.cross_entropy(alike, own.roll(2)))[facts.HAS_SELF_PAIRS] == 1.0
    assert only(F.cross_entropy(alike, own))[facts.HAS_SELF_PAIRS] == 0.0
    assert only(F.cross_entropy(first @ second.T, own.roll(2)))[facts.HAS_SELF_PAIRS] == 0.0
    masked = only(F.cross_entropy(alike.masked_fill(diagonal, float("-inf")), own.roll(2)))
    assert masked.get(facts.HAS_SELF_PAIRS, 0.0) == 0.0
    for of_layer in (nn.Linear(3, 4)(first), nn.Linear(3, 4, bias=False)(first), torch.randn(4, 4, requires_grad=True)):
        assert facts.IS_ONE_OF_PAIRS not in only(F.cross_entropy(of_layer, zeros))


def test_an_item_that_occurs_several_times_in_a_batch_is_its_own_negative() -> None:
    torch.manual_seed(1)
    users, items = nn.Embedding(12, 8), nn.Embedding(12, 8)
    own, ids = torch.arange(12), torch.tensor([0, 1, 2, 0, 3, 4, 5, 1, 6, 7, 8, 9])

    def share(logits: torch.Tensor, labels: torch.Tensor = own) -> float | None:
        return only(F.cross_entropy(logits, labels)).get(facts.OWN_NEGATIVES)

    logits = users(own) @ F.normalize(items(ids)).T / 0.1
    expected = np.mean([np.sum(ids.numpy() == item) > 1 for item in ids.numpy()])
    assert share(logits) == pytest.approx(expected)
    assert share(users(own) @ items(own).T) == 0.0, "each item once"
    assert share(logits, own.roll(1)) == 0.0, "labels that are not those of the pairs"
    is_same = (ids[:, None] == ids) & ~torch.eye(12, dtype=torch.bool)
    assert not share(logits.masked_fill(is_same, float("-inf"))), "masked"
    dead = F.relu(items(own) * torch.where(own < 6, 1.0, 0.0)[:, None])
    assert share(users(own) @ dead.T) == 0.0, "items that are all zeros are alike without being the same"
    assert share(users(own) @ (items(own) * 0).T) == 0.0


@pytest.mark.parametrize("by_hand", [False, True])
def test_labels_with_a_gradient_are_told_from_two_views(by_hand: bool) -> None:
    critic, reward = nn.Linear(3, 1), torch.rand(8, 1)
    now, later = torch.randn(8, 3), torch.randn(8, 3)

    def fact(predictions: torch.Tensor, labels: torch.Tensor) -> float | None:
        loss = (labels - predictions).pow(2).mean() if by_hand else F.mse_loss(predictions, labels)
        return next((call.numbers.get(facts.HAS_MOVING_LABELS) for call in given(loss)), None)

    assert fact(critic(now), reward + 0.9 * critic(later)) == 1.0
    assert fact(critic(now), (reward + 0.9 * critic(later)).detach()) is None
    of_another = nn.Linear(3, 1)
    for labels in (critic(later), reward + 0.9 * of_another(later)):
        assert fact(critic(now), labels) in (0.0, None)
    assert fact(reward + 0.9 * critic(now), reward + 0.9 * critic(later)) in (0.0, None)


def test_what_is_not_known_is_absent() -> None:
    found = only(F.cross_entropy(out(4), CLASSES))
    assert {facts.LABEL_MIN, facts.OUT_OF_REACH_SHARE, facts.EXP_SUM_ERROR}.isdisjoint(found)
    assert set(found) <= set(FACTS)


def step_once(model: nn.Module, *losses: Train, steps: int = 3, scaler: Any = None) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            for compute in losses:
                loss = compute(model)
                (scaler.scale(loss) if scaler is not None else loss).backward()
            optimizer.step()

    return train


def checks(folder: Path, train: Callable[[], None], *more: str) -> dict[str, dict[int, float]]:
    """Return the facts of a training by name and step."""
    found = scalars(watch(folder, train, "checks:every=1", *more), "checks")
    return {name: values for name, values in found.items() if name.rpartition("/")[2] in FACTS}


def activations(found: dict[str, dict[int, float]]) -> dict[str, Activation]:
    return {
        name.partition("/")[0]: Activation(int(values[0]))
        for name, values in found.items()
        if name.endswith(f"/{facts.ACTIVATION}") and 0 in values
    }


def softmaxed() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4), nn.Softmax(1))


def test_facts_are_captured_at_the_first_two_steps(tmp_path: Path) -> None:
    found = checks(tmp_path, step_once(softmaxed(), lambda model: F.cross_entropy(model(X), CLASSES), steps=5))
    assert {tuple(values) for values in found.values()} == {(0, 1)}
    assert activations(found) == {"cross_entropy": Activation.SOFTMAX}


def test_facts_are_captured_at_the_first_steps_of_a_second_training(tmp_path: Path) -> None:
    def two_trainings() -> None:
        for criterion in (F.cross_entropy, F.mse_loss):
            model = nn.Linear(4, 3)
            optimizer = torch.optim.SGD(model.parameters(), 0.01)
            for _ in range(10):
                labels = torch.tensor([0, 1, 2]) if criterion is F.cross_entropy else torch.full((3, 3), 1 / 3)
                criterion(model(torch.randn(3, 4)).softmax(1), labels).backward()
                optimizer.step()
                optimizer.zero_grad()

    found = checks(tmp_path, two_trainings)
    assert list(found["cross_entropy/loss_kind"]) == [0, 1]
    assert list(found["squared_error/loss_kind"]) == [11, 12]


def test_nothing_is_captured_where_no_checks_are(tmp_path: Path) -> None:
    run = watch(tmp_path, step_once(softmaxed(), lambda model: F.cross_entropy(model(X), CLASSES)), "losses:every=1")
    assert not run.tensor_names(collection="checks")


def test_micro_batches_are_one_loss_call_and_different_places_several(tmp_path: Path) -> None:
    def real(model: nn.Module) -> torch.Tensor:
        return F.binary_cross_entropy_with_logits(model(X).sum(1, keepdim=True), BINARY)

    found = checks(tmp_path / "1", step_once(nn.Linear(8, 4), *[real] * 3))
    assert set(activations(found)) == {"binary_cross_entropy_with_logits"}
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        for _ in range(2):
            F.binary_cross_entropy_with_logits(model(X), BINARY).backward()
            F.binary_cross_entropy_with_logits(model(X).sigmoid(), BINARY).backward()
            optimizer.step()

    assert activations(checks(tmp_path / "2", train)) == {
        "binary_cross_entropy_with_logits": Activation.NONE,
        "binary_cross_entropy_with_logits_1": Activation.SIGMOID,
    }


@pytest.mark.parametrize(
    ("loss", "passes", "is_sum", "is_scaled"),
    [
        (F.cross_entropy, 1, 0, 0),
        (F.cross_entropy, 4, 0, 0),
        (lambda outputs, labels: F.cross_entropy(outputs, labels) / 4, 4, 0, 1),
        (lambda outputs, labels: F.cross_entropy(outputs, labels, reduction="sum") / 128, 4, 1, 1),
        (lambda outputs, labels: F.cross_entropy(outputs, labels, reduction="none").sum(), 1, 1, 0),
        (lambda outputs, labels: F.cross_entropy(outputs, labels, reduction="none").mean() * 0.5, 2, 0, 1),
    ],
)
def test_how_losses_become_gradients_is_known_after_the_first_step(
    tmp_path: Path,
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    passes: int,
    is_sum: int,
    is_scaled: int,
) -> None:
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            for _ in range(passes):
                loss(model(X), CLASSES).backward()
            optimizer.step()

    found = scalars(watch(tmp_path, train, "checks:every=1"), "checks")
    ways = {
        name.rpartition("/")[2]: values for name, values in found.items() if name.startswith("cross_entropy_output")
    }
    assert ways == {"backward_passes": {1: passes}, "is_sum": {1: is_sum}, "is_scaled": {1: is_scaled}}


@pytest.mark.parametrize("is_module", [True, False])
@pytest.mark.parametrize(
    ("activation", "mistake"),
    [(nn.LogSoftmax(1), None), (nn.Softmax(1), "not_log_probabilities"), (nn.Identity(), "not_log_probabilities")],
)
def test_a_divergence_is_known_by_its_observed_call(
    tmp_path: Path, activation: nn.Module, mistake: str | None, *, is_module: bool
) -> None:
    labels = torch.softmax(torch.randn(32, 4), 1)
    measure = nn.KLDivLoss(reduction="batchmean") if is_module else partial(F.kl_div, reduction="batchmean")
    model = nn.Sequential(nn.Linear(8, 4), activation)
    train = step_once(model, lambda model: measure(model(X), labels))
    found = checks(tmp_path, train)
    call = GivenLoss("", "", {name.partition("/")[2]: values[0] for name, values in found.items()})
    assert call.kind is LossKind.KL_DIV
    found_mistake = find_mistake(call)
    assert (found_mistake.name if found_mistake is not None else None) == mistake


def test_labels_of_an_observed_cross_entropy_are_judged_and_factors_by_hand_are_not(tmp_path: Path) -> None:
    advantages = ONE_HOT * NUMBERS
    model = nn.Linear(8, 4)
    by_hand = checks(tmp_path / "1", step_once(model, lambda model: -(F.log_softmax(model(X), 1) * advantages).mean()))
    called = checks(tmp_path / "2", step_once(model, lambda model: F.cross_entropy(model(X), SEVERAL)))
    assert f"cross_entropy/{facts.LABEL_MIN}" not in by_hand
    assert called[f"cross_entropy/{facts.MULTI_HOT_SHARE}"][0] == pytest.approx((SEVERAL.sum(1) > 1).float().mean())


class _Packed(nn.Module):
    """Computes model and loss in a checkpoint, and counts how often."""

    def __init__(self) -> None:
        super().__init__()
        self.model, self.calls = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()), 0

    def compute(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return F.mse_loss(self.model(inputs), NUMBERS)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.compute, inputs, use_reentrant=False)


def test_a_checkpoint_is_not_recomputed(tmp_path: Path) -> None:
    model = _Packed()
    found = checks(tmp_path, step_once(model, lambda model: model(X), steps=2))
    assert model.calls == 4  # forward and backward pass of each step
    assert activations(found) == {"squared_error": Activation.SIGMOID}
    assert f"squared_error/{facts.LABEL_MIN}" not in found


def test_saved_tensors_that_are_elsewhere_are_not_fetched(tmp_path: Path) -> None:
    def compute(model: nn.Module) -> torch.Tensor:
        with save_on_cpu():
            return F.mse_loss(model(X).sigmoid(), NUMBERS)

    found = checks(tmp_path, step_once(nn.Linear(8, 1), compute))
    assert activations(found) == {"squared_error": Activation.SIGMOID}
    assert f"squared_error/{facts.LABEL_MIN}" not in found


def test_labels_that_were_changed_in_place_are_unknown() -> None:
    labels = NUMBERS.clone()
    loss = F.mse_loss(out(1), labels)
    labels.add_(1)
    assert facts.LABEL_MIN not in only(loss)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_autocast_and_a_scaler_hide_nothing(tmp_path: Path) -> None:
    def compute(model: nn.Module) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return F.cross_entropy(model(X), CLASSES)

    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    found = checks(tmp_path, step_once(softmaxed(), compute, scaler=scaler))
    assert activations(found) == {"cross_entropy": Activation.SOFTMAX}


class _Compiled(torch.autograd.Function):
    """One node for a whole model, as torch.compile makes it."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(inputs)
        return torch.softmax(inputs @ weight, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor]:
        return None, ctx.saved_tensors[0].t() @ gradients[0]


def test_of_a_compiled_model_what_is_behind_it_is_known() -> None:
    scores = _Compiled.apply(X, torch.randn(8, 4, requires_grad=True))
    assert mistakes(F.binary_cross_entropy_with_logits(scores.sigmoid(), SEVERAL)) == {"not_logits"}
    assert mistakes(F.binary_cross_entropy_with_logits(scores, 2 * SEVERAL - 1)) == {"impossible_labels"}
    assert mistakes(F.nll_loss(scores, CLASSES)) == {"not_log_probabilities"}
    assert mistakes(F.nll_loss(scores.log(), CLASSES)) == set()
    found = only(F.cross_entropy(scores, CLASSES))
    assert (found[facts.KIND], found[facts.ACTIVATION]) == (LossKind.CROSS_ENTROPY, Activation.UNKNOWN)


def test_what_distributed_data_parallel_passes_on_is_followed() -> None:
    scores = out(4, nn.Softmax(1))

    class _DDPSink(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, state: object, *outputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(output.clone() for output in outputs)

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
            return None, *gradients

    _, passed_on = _DDPSink.apply(None, out(1, nn.Tanh()), scores)
    assert passed_on.grad_fn.name() == "_DDPSinkBackward"
    assert mistakes(F.cross_entropy(passed_on, CLASSES)) == {"not_logits"}


def test_a_loss_that_is_not_known_is_recorded_as_such(tmp_path: Path) -> None:
    found = checks(tmp_path, step_once(nn.Linear(8, 1), lambda model: F.relu(1 - model(X)).mean()))
    assert found == {f"loss/{facts.KIND}": {0: 0.0, 1: 0.0}}


def test_a_huge_expression_is_walked_in_part() -> None:
    model, losses = nn.Linear(8, 4), []
    for _ in range(2000):
        losses.append(F.cross_entropy(model(X), CLASSES))
    visited: list[Any] = []
    terms = LossTerms(lambda node: visited.append(node), lambda call: None).find(torch.stack(losses).sum().grad_fn)
    assert len(terms) == 8
    assert len(visited) <= 96


def test_a_training_is_the_same_with_facts(tmp_path: Path) -> None:
    def weights(run: Callable[[Callable[[], None]], object]) -> torch.Tensor:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 4), nn.Dropout(), nn.Linear(4, 1), nn.Sigmoid())
        run(step_once(model, lambda model: F.mse_loss(model(X), NUMBERS)))
        return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])

    bare = weights(lambda train: train())
    assert torch.equal(bare, weights(lambda train: checks(tmp_path, train)))
