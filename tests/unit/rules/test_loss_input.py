"""loss_input and loss_choice: mistakes shown by facts, bounds, what must be found twice, and messages."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import given_loss

from leadline.records import loss_facts as facts
from leadline.records.loss_facts import FACTS, Activation, LossKind
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.losses.loss_choice import LossChoice
from leadline.rules.losses.loss_input import LossInput
from leadline.rules.rule import Rule
from leadline.testing.windows import verdicts

BCE, LOGITS = LossKind.BINARY_CROSS_ENTROPY, LossKind.BINARY_CROSS_ENTROPY_WITH_LOGITS
CE, NLL, KL, MSE = LossKind.CROSS_ENTROPY, LossKind.NLL, LossKind.KL_DIV, LossKind.SQUARED_ERROR
LIKELIHOOD = LossKind.LOG_LIKELIHOOD


def judge(*steps: dict[str, float], rule: Rule | None = None) -> list[Verdict]:
    parts = [given_loss(step, "call", numbers) for step, numbers in enumerate(steps)]
    return [verdict for _, verdict in verdicts(rule or LossInput(), parts)]


def given(kind: LossKind, activation: Activation = Activation.NONE, **more: float) -> dict[str, float]:
    assert set(more) <= set(FACTS)
    return {facts.KIND: float(kind), facts.ACTIVATION: float(activation), **more}


def positions(*shares: float) -> dict[str, float]:
    """Return the shares of the labels that are the token at the same position, the next one, and the one after it."""
    return dict(zip(facts.LABELS_AT, shares, strict=True))


@pytest.mark.parametrize(
    ("numbers", "mistake"),
    [
        (given(BCE, Activation.SOFTMAX, softmax_size=1.0), "softmax_of_one"),
        (given(CE, softmax_size=1.0), "softmax_of_one"),
        (given(LossKind.OTHER, Activation.SOFTMAX, softmax_size=1.0), "softmax_of_one"),
        (given(BCE, Activation.SIGMOID, is_swapped=1.0), "swapped"),
        (given(MSE, is_broadcast=1.0), "broadcast"),
        (given(LossKind.CTC, Activation.LOG_SOFTMAX, blank_share=0.1), "blank"),
        (given(MSE, label_repeats=8.0), "repeated_labels"),
        (given(LossKind.CATEGORICAL_CROSS_ENTROPY, Activation.SIGMOID, classes=4.0), "not_probabilities"),
        (given(LossKind.CATEGORICAL_CROSS_ENTROPY, Activation.SIGMOID, softmax_size=1.0), "softmax_of_one"),
        (given(CE, Activation.SOFTMAX), "not_logits"),
        (given(CE, Activation.SIGMOID), "not_logits"),
        (given(CE, Activation.RELU), "not_logits"),
        (given(CE, Activation.TANH), "not_logits"),
        (given(LOGITS, Activation.SIGMOID), "not_logits"),
        (given(BCE, Activation.SIGMOID, inner_activation=float(Activation.RELU)), "double_activation"),
        (given(NLL, Activation.LOG_SOFTMAX, inner_activation=float(Activation.SOFTMAX)), "double_activation"),
        (given(BCE), "not_probabilities"),
        (given(BCE, is_rescaled=1.0), "not_probabilities"),
        (given(BCE, Activation.TANH), "not_probabilities"),
        (given(BCE, Activation.LOG_SIGMOID), "not_probabilities"),
        (given(NLL, exp_sum_error=7.0), "not_log_probabilities"),
        (given(NLL, Activation.SOFTMAX, exp_sum_error=2.0), "not_log_probabilities"),
        (given(NLL, Activation.LOG_SIGMOID, exp_sum_error=1.0), "not_log_probabilities"),
        (given(KL, Activation.SOFTMAX), "not_log_probabilities"),
        (given(KL, Activation.LOG_SOFTMAX, label_min=-3.0, label_max=-0.1), "impossible_labels"),
        (given(LOGITS, label_min=-1.0, label_max=1.0), "impossible_labels"),
        (given(BCE, Activation.SIGMOID, label_min=0.0, label_max=255.0), "impossible_labels"),
        (given(LossKind.SOFT_MARGIN, label_min=0.0, label_max=1.0, are_labels_binary=1.0), "impossible_labels"),
        (given(CE, is_softmax_over_batch=1.0, classes=4.0), "softmax_over_batch"),
        (given(MSE, has_dropout=1.0), "dropout"),
    ],
)
def test_a_mistake_in_the_structure_is_found_at_one_step(numbers: dict[str, float], mistake: str) -> None:
    (verdict,) = judge(numbers)
    assert isinstance(verdict, Fired)
    assert verdict.evidence["mistake"] == mistake
    assert verdict.tensors[0].partition("/")[2] in numbers
    assert "; usually " in verdict.suggestion


@pytest.mark.parametrize(
    ("numbers", "mistake"),
    [
        (given(MSE, Activation.SIGMOID, out_of_reach_share=0.11), "labels_out_of_reach"),
        (given(CE, **positions(0.1, 0.9, 0.99)), "shifted_twice"),
        (given(CE, multi_hot_share=0.11), "several_classes"),
        (given(BCE, Activation.SOFTMAX, multi_hot_share=0.5), "several_classes"),
        (given(LOGITS, one_hot_share=1.0, classes=2.0), "two_columns"),
        (given(LIKELIHOOD, Activation.LOG_SIGMOID, one_hot_share=1.0), "sigmoid_likelihood"),
        (
            given(NLL, Activation.UNKNOWN, exp_sum_error=1.0, sum_error=1e-3, prediction_min=0.0),
            "not_log_probabilities",
        ),
    ],
)
def test_a_mistake_in_the_values_must_be_found_at_both_steps(numbers: dict[str, float], mistake: str) -> None:
    first, second = judge(numbers, numbers)
    assert first == Undecided("1 of 2 needed steps agree", stage="suspected")
    assert isinstance(second, Fired)
    assert second.evidence["mistake"] == mistake
    assert "; usually " in second.suggestion
    healthy = given(CE)
    assert [type(verdict) for verdict in judge(numbers, healthy)] == [Undecided, Clear]
    assert [type(verdict) for verdict in judge(healthy, numbers)] == [Clear, Undecided]


@pytest.mark.parametrize(
    "numbers",
    [
        given(CE, softmax_size=2.0),
        given(CE, ignored_share=1.0, ignore_index=-100.0),
        given(CE, **positions(0.1, 0.1, 0.98)),
        given(CE, **positions(0.1, 0.91, 1.0)),
        given(CE, **positions(1.0, 0.1, 0.1)),
        given(CE, **positions(math.nan, math.nan, math.nan)),
        given(CE, Activation.LOG_SOFTMAX),
        given(CE, Activation.TANH, is_rescaled=1.0),
        given(BCE, Activation.TANH, is_rescaled=1.0),
        given(BCE, Activation.EXP),
        given(LOGITS, label_min=0.0, label_max=1.0),
        given(CE, label_min=0.0, label_max=1.0, multi_hot_share=0.1),
        given(LOGITS, multi_hot_share=1.0, classes=4.0),
        given(LOGITS, one_hot_share=0.99, classes=2.0),
        given(LOGITS, one_hot_share=1.0, classes=3.0),
        given(MSE, Activation.SIGMOID, out_of_reach_share=0.1),
        given(MSE, Activation.SIGMOID, out_of_reach_share=1.0, is_rescaled=1.0),
        given(MSE, Activation.SIGMOID, out_of_reach_share=math.nan),
        given(NLL, exp_sum_error=1e-2),
        given(NLL, Activation.UNKNOWN, exp_sum_error=1.0, sum_error=1.1e-3, prediction_min=0.0),
        given(NLL, Activation.UNKNOWN, exp_sum_error=1.0, sum_error=0.0, prediction_min=-0.1),
        given(LIKELIHOOD, Activation.LOG_SIGMOID, one_hot_share=0.9),
        given(LIKELIHOOD, Activation.LOG_SIGMOID),
        given(LIKELIHOOD, Activation.LOG_SOFTMAX, is_softmax_over_batch=1.0, classes=1.0),
        given(KL, Activation.LOG_SOFTMAX, label_min=0.0, label_max=1.0),
        given(LossKind.SOFT_MARGIN, label_min=-1.0, label_max=1.0, are_labels_binary=0.0),
        given(BCE, Activation.SIGMOID, inner_activation=float(Activation.NONE)),
        given(LossKind.OTHER, Activation.SOFTMAX, softmax_size=4.0),
    ],
)
def test_what_is_meant_or_within_bounds_is_clear(numbers: dict[str, float]) -> None:
    assert judge(numbers, numbers) == [Clear(), Clear()]


@pytest.mark.parametrize("code", [0.0, math.nan, 99.0])
def test_an_unknown_loss_is_not_applicable(code: float) -> None:
    assert judge({facts.KIND: code, facts.ACTIVATION: 2.0}) == [NotApplicable("no loss whose input the graph shows")]


def test_an_unknown_activation_code_shows_nothing() -> None:
    assert judge({facts.KIND: float(CE), facts.ACTIVATION: 99.0, facts.INNER_ACTIVATION: math.nan}) == [Clear()]


def test_the_message_names_the_loss_call_only_where_there_are_several() -> None:
    wrong, right = given(CE, Activation.SOFTMAX), given(MSE)
    (alone,) = judge(wrong)
    parts = [given_loss(0, "cross_entropy", wrong), given_loss(0, "squared_error", right)]
    ((_, one_of_two),) = verdicts(LossInput(), parts)
    both = [given_loss(0, "cross_entropy", wrong), given_loss(0, "cross_entropy_1", wrong)]
    ((_, two),) = verdicts(LossInput(), both)
    assert isinstance(alone, Fired)
    assert isinstance(one_of_two, Fired)
    assert isinstance(two, Fired)
    assert alone.message == (
        "cross entropy takes logits and applies softmax itself, but is given the output of a softmax"
    )
    assert one_of_two.message == f"cross_entropy: {alone.message}"
    assert two.message == f"cross_entropy: {alone.message}, and 1 more loss call"
    assert two.tensors == ("cross_entropy/activation", "cross_entropy_1/activation")


def test_a_certain_mistake_comes_first() -> None:
    out_of_reach = given(MSE, Activation.TANH, out_of_reach_share=0.9)
    parts = [given_loss(step, "a", out_of_reach) for step in range(2)]
    parts.append(given_loss(1, "b", given(MSE, is_broadcast=1.0)))
    assert isinstance(fired := verdicts(LossInput(), parts)[1][1], Fired)
    assert fired.tensors == ("b/is_broadcast", "a/out_of_reach_share")


@pytest.mark.parametrize(
    ("numbers", "fires"),
    [
        (given(MSE, are_labels_binary=1.0, label_min=0.0, label_max=1.0, classes=1.0), True),
        (given(MSE, are_labels_binary=1.0, label_min=0.0, label_max=1.0, classes=9.0, one_hot_share=1.0), True),
        (given(MSE, are_labels_binary=1.0, label_min=0.0, label_max=1.0, classes=9.0, one_hot_share=0.4), False),
        (given(MSE, are_labels_binary=1.0, label_min=1.0, label_max=1.0, classes=1.0), False),
        (given(MSE, are_labels_binary=0.0, label_min=0.0, label_max=1.0, classes=1.0), False),
        (given(LOGITS, are_labels_binary=1.0, label_min=0.0, label_max=1.0, classes=1.0), False),
        (given(MSE, are_labels_binary=math.nan, label_min=math.nan, label_max=math.nan, classes=1.0), False),
    ],
)
def test_a_regression_loss_on_classes_is_an_advice(numbers: dict[str, float], fires: bool) -> None:
    verdict = judge(numbers, numbers, rule=LossChoice())[-1]
    assert isinstance(verdict, Fired if fires else Clear)
    assert LossChoice.severity == "advice"


def test_binary_cross_entropy_of_a_softmax_over_classes_is_an_advice() -> None:
    labels = {"are_labels_binary": 1.0, "label_min": 0.0, "label_max": 1.0, "one_hot_share": 1.0}
    many, two = (given(BCE, Activation.SOFTMAX, classes=classes, **labels) for classes in (5.0, 2.0))
    assert isinstance(judge(many, many, rule=LossChoice())[-1], Fired)
    assert judge(many, many) == [Clear(), Clear()]
    assert judge(two, two, rule=LossChoice()) == [Clear(), Clear()]


@pytest.mark.parametrize("rule", [LossInput(), LossChoice()])
def test_the_first_two_steps_are_needed(rule: Rule) -> None:
    (need,) = rule.needs().tensors
    assert (need.collection, need.end, need.every, rule.least_observations) == ("checks", 2, None, 2)
    assert all(need.selects(f"cross_entropy/{fact}", ("checks",)) for fact in FACTS)
    assert not need.selects("SGD/steps_without_zero_grad", ("checks",))


def test_an_accuracy_of_a_regression_is_told_unless_its_labels_are_whole_numbers() -> None:
    numbers = given(MSE, has_accuracy=1.0, are_labels_whole=0.0)
    fired = judge(numbers, numbers, rule=LossChoice())[-1]
    assert isinstance(fired, Fired)
    assert fired.evidence["mistake"] == "accuracy_of_regression"
    for change in ({facts.ARE_LABELS_WHOLE: 1.0}, {facts.HAS_ACCURACY: 0.0}, {facts.KIND: float(BCE)}):
        twin = numbers | change
        assert isinstance(judge(twin, twin, rule=LossChoice())[-1], Clear)


def test_labels_that_are_the_input_are_for_an_autoencoder_only() -> None:
    found = judge(*[given(CE, **positions(0.99, 0.9, 0.1))] * 2, rule=LossChoice())[-1]
    assert isinstance(found, Fired)
    assert found.message == (
        "99 % of the labels of cross entropy are the token that the model is given at the same position: it is to "
        "repeat its input, not to predict the next token"
    )
    for shares in ((0.98, 0.1, 0.1), (1.0, 0.91, 0.1), (0.1, 1.0, 0.1)):
        assert judge(*[given(CE, **positions(*shares))] * 2, rule=LossChoice())[-1] == Clear()


@pytest.mark.parametrize(
    ("numbers", "mistake", "message"),
    [
        (
            {facts.LABELS_OF_PADDING: 0.11},
            "labels_of_padding",
            "11 % of the labels that cross entropy counts are at positions at which the model is given padding",
        ),
        (
            {facts.DOUBLED_FIRST: 0.91},
            "doubled_first",
            "91 % of the sequences that the model is given begin with the same token twice",
        ),
    ],
)
def test_padding_and_doubled_tokens_are_advice(numbers: dict[str, float], mistake: str, message: str) -> None:
    found = judge(*[given(CE, **numbers)] * 2, rule=LossChoice())[-1]
    assert isinstance(found, Fired)
    assert (found.message, found.evidence["mistake"]) == (message, mistake)
    least = {fact: share - 0.01 for fact, share in numbers.items()}
    assert judge(*[given(CE, **least)] * 2, rule=LossChoice())[-1] == Clear()
    assert judge(*[given(CE, **dict.fromkeys(numbers, math.nan))] * 2, rule=LossChoice())[-1] == Clear()
