"""exploding_tensor: NaN and infinity, in scalars and elements."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import captured, skipped

from leadline.errors import ConfigurationError, UnknownNameError
from leadline.records.verdict import Clear, Fired, Undecided
from leadline.rules.tensors.exploding_tensor import ExplodingTensor
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts

GRADIENT = "gradient/layers.3.attn.in_proj_weight"
SHAPES = {GRADIENT: (256, 256)}


def counts(nonfinite: float, nan: float, name: str = GRADIENT) -> Capture:
    return Capture(0, {name: {"nonfinite_count": nonfinite, "nan_count": nan}})


def only(rule: ExplodingTensor, *parts: Capture) -> Fired | Clear | Undecided:
    ((_, verdict),) = verdicts(rule, parts, shapes=SHAPES)
    return verdict


@pytest.mark.parametrize(
    ("nonfinite", "nan", "message"),
    [
        (12, 0, "layers.3.attn.in_proj_weight: 12 of 65,536 gradients are infinite"),
        (12, 12, "layers.3.attn.in_proj_weight: 12 of 65,536 gradients are NaN"),
        (12, 5, "layers.3.attn.in_proj_weight: 12 of 65,536 gradients are NaN or infinite"),
        (1, 1, "layers.3.attn.in_proj_weight: 1 of 65,536 gradients is NaN"),
    ],
)
def test_elements_are_counted_and_named(nonfinite: float, nan: float, message: str) -> None:
    fired = only(ExplodingTensor(), counts(nonfinite, nan))
    assert isinstance(fired, Fired)
    assert fired.message == message
    assert fired.tensors == (GRADIENT,)
    assert fired.evidence == {"nonfinite_count": int(nonfinite), "nan_count": int(nan), "elements": 65536}


@pytest.mark.parametrize(("value", "message"), [(math.nan, "loss is NaN"), (-math.inf, "loss is infinite")])
def test_the_loss_is_named_first_and_the_others_are_counted(value: float, message: str) -> None:
    fired = only(ExplodingTensor(), counts(3, 3), Capture(0, {"loss": {"value": value}}))
    assert isinstance(fired, Fired)
    assert fired.message == message + ", and 1 more tensor"
    assert fired.tensors == ("loss", GRADIENT)


@pytest.mark.parametrize(
    ("mode", "message", "advice"),
    [("train", "loss is NaN", "learning rate"), ("eval", "loss is NaN in an evaluation", "running averages")],
)
def test_a_loss_of_an_evaluation_is_told_from_one_of_the_training(mode: str, message: str, advice: str) -> None:
    fired = only(ExplodingTensor(), Capture(0, {"loss": {"value": math.nan}}, mode=mode))
    assert isinstance(fired, Fired)
    assert fired.message == message
    assert advice in fired.suggestion


def test_clear_on_the_bound_and_at_the_largest_number() -> None:
    assert only(ExplodingTensor(), counts(0, 0)) == Clear()
    assert only(ExplodingTensor(), Capture(0, {"loss": {"value": 1.7976931348623157e308}})) == Clear()


def test_only_nan_ignores_infinity() -> None:
    rule = ExplodingTensor(only_nan=True)
    assert only(rule, counts(4, 0)) == Clear()
    assert only(rule, Capture(0, {"loss": {"value": math.inf}})) == Clear()
    fired = only(rule, counts(4, 2))
    assert isinstance(fired, Fired)
    assert fired.message == "layers.3.attn.in_proj_weight: 2 of 65,536 gradients are NaN"


def test_only_selected_collections_and_names_are_evaluated() -> None:
    rule = ExplodingTensor(collection_names=("losses",), tensor_regex=(r"\.3\.",))
    assert isinstance(only(rule, counts(1, 1)), Fired)
    assert isinstance(only(rule, Capture(0, {"loss": {"value": math.nan}})), Fired)
    assert verdicts(rule, [counts(1, 1, "gradient/other.weight")]) == []


def test_the_same_tensor_in_two_workers_is_one_tensor() -> None:
    parts = [Capture(0, counts(1, 1).values, worker=worker) for worker in ("rank0-1", "rank1-2")]
    fired = only(ExplodingTensor(), *parts)
    assert isinstance(fired, Fired)
    assert (fired.tensors, fired.worker) == ((GRADIENT,), "rank0-1")
    assert "more" not in fired.message


def test_clear_is_undecided_with_incomplete_data_but_fired_stays() -> None:
    loss = {"loss": {"value": 1.0}}
    assert isinstance(verdicts(ExplodingTensor(), [Capture(0, loss)], is_incomplete=True)[0][1], Undecided)
    assert isinstance(verdicts(ExplodingTensor(), [counts(1, 1)], is_incomplete=True)[0][1], Fired)


def test_infinity_in_activations_counts_as_a_mask_unless_selected() -> None:
    mask, broken = counts(6, 0, "attention_input_3"), counts(6, 1, "attention_input_3")
    assert only(ExplodingTensor(), mask) == Clear()
    assert isinstance(only(ExplodingTensor(), broken), Fired)
    assert isinstance(only(ExplodingTensor(collection_names=("layers",)), mask), Fired)


def test_gradients_and_norms_of_a_skipped_step_are_not_evaluated() -> None:
    norm = captured(0, {"SGD/gradient_norm_before_clipping": {"value": math.inf}})
    assert isinstance(only(ExplodingTensor(), norm), Fired)
    assert only(ExplodingTensor(), norm, skipped(0)) == Clear()
    assert only(ExplodingTensor(), counts(1, 1), skipped(0)) == Clear()
    assert isinstance(only(ExplodingTensor(), Capture(0, {"loss": {"value": math.nan}}), skipped(0)), Fired)


def test_invalid_selections_are_rejected() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'gradients'"):
        ExplodingTensor(collection_names=("gradient",))
    with pytest.raises(ConfigurationError, match="not a valid regular expression"):
        ExplodingTensor(tensor_regex=("(",))
    with pytest.raises(ConfigurationError, match="only_nan must be true or false, not 3"):
        ExplodingTensor(only_nan=3)
