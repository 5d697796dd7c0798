"""nonfinite_origin: the choice of the origin among non-finite tensors."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import captured, skipped

from leadline.records.names import WHOLE_DATA
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.nonfinite_origin import NonfiniteOrigin
from leadline.testing.runs import Capture, Part
from leadline.testing.windows import verdicts

LOSS_CALL = {"CrossEntropyLoss_input_0": "predictions", "CrossEntropyLoss_input_1": "labels"}
BAD_LOSS = captured(3, {"loss": {"value": math.nan}})


def counts(**tensors: float) -> Capture:
    return captured(
        3,
        {name.replace("__", "/").replace("_dot_", "."): {"nonfinite_count": value} for name, value in tensors.items()},
    )


def judge(*parts: Part, **settings: bool) -> Verdict:
    ((_, verdict),) = verdicts(NonfiniteOrigin(), parts, **settings)
    return verdict


def origin(*parts: Part) -> tuple[str, str]:
    verdict = judge(*parts)
    assert isinstance(verdict, Fired)
    return verdict.evidence["origin"], verdict.evidence["tensor"]


def test_finite_values_are_clear() -> None:
    assert judge(captured(3, {"loss": {"value": 1e300}})) == Clear()
    assert judge(counts(gradient__a_dot_weight=0)) == Clear()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_nonfinite_loss_alone(number: float) -> None:
    verdict = judge(captured(3, {"loss": {"value": number}}))
    assert isinstance(verdict, Fired)
    assert verdict.evidence == {
        "origin": "loss",
        "tensor": "loss",
        "batch": 3,
        "nonfinite": 1,
        "elements": 1,
        "tensors": 1,
    }
    assert verdict.message.endswith("; no layers were captured at this step, so its origin is not known")
    assert "--capture layers:every=1,start=0 --on nonfinite_origin=stop_training" in verdict.suggestion


def test_finite_labels_alone_do_not_point_to_the_loss() -> None:
    infos = {name: TensorInfo(name, (collection, "layers"), (8,)) for name, collection in LOSS_CALL.items()}
    labels = Capture(3, {"CrossEntropyLoss_input_1": {"nonfinite_count": 0}}, infos=infos)
    verdict = judge(BAD_LOSS, labels)
    assert isinstance(verdict, Fired)
    assert verdict.message == "loss is NaN; no layers were captured at this step, so its origin is not known"


def test_a_finite_batch_alone_does_not_point_to_the_loss() -> None:
    infos = {"Net_input_0": TensorInfo("Net_input_0", ("inputs", "layers"), (8, 4))}
    verdict = judge(BAD_LOSS, Capture(3, {"Net_input_0": {"nonfinite_count": 0}}, infos=infos))
    assert isinstance(verdict, Fired)
    assert verdict.message.startswith(
        "loss is NaN although what the model was given is finite; no layers were captured"
    )
    assert "NaN in the batch" not in verdict.suggestion


def test_data_that_were_given_as_a_whole_are_no_batch() -> None:
    infos = {"fit_input_0": TensorInfo("fit_input_0", ("inputs", "layers", WHOLE_DATA), (8, 4))}
    verdict = judge(BAD_LOSS, Capture(3, {"fit_input_0": {"nonfinite_count": 2}}, infos=infos))
    assert isinstance(verdict, Fired)
    assert verdict.message == "from the data: 2 of 32 elements not finite in fit_input_0"
    assert verdict.evidence["origin"] == "data"


def test_a_nonfinite_loss_after_finite_layers() -> None:
    verdict = judge(BAD_LOSS, counts(Net_input_0=0, a_output_0=0))
    assert isinstance(verdict, Fired)
    assert verdict.message == "loss is NaN; no tensor captured before it was non-finite"
    assert verdict.suggestion.startswith("checking what the loss computes")


GROWING = [captured(step, {"loss": {"value": 2.3 * 3.0**step}}) for step in range(12)]
STEADY = [captured(step, {"loss": {"value": 2.3 - 0.1 * step}}) for step in range(12)]
LINEAR = {"fc_output_0": TensorInfo("fc_output_0", ("layers", "linear_output"), (8, 4))}
NORM = {"norm_output_0": TensorInfo("norm_output_0", ("layers", "layernorm_output"), (8, 4))}


@pytest.mark.parametrize(
    ("before", "infos", "advice"),
    [
        (GROWING, LINEAR, "a tenth of the learning rate"),
        (GROWING, NORM, "a tenth of the learning rate"),
        (STEADY, LINEAR, "the sizes of this module's weights and inputs"),
        (STEADY, NORM, "checking what this module divides by"),
    ],
)
def test_advice_on_a_module_looks_at_its_kind_and_at_the_growth_before(
    before: list[Capture], infos: dict[str, TensorInfo], advice: str
) -> None:
    """A linear layer divides by nothing; a loss that has grown was driven there by the updates."""
    (name,) = infos
    bad = [
        Capture(12, {"loss": {"value": math.nan}}, infos={"loss": TensorInfo("loss", ("losses",), ())}),
        Capture(12, {name: {"nonfinite_count": 3.0}}, infos=infos),
    ]
    verdict = verdicts(NonfiniteOrigin(), [*before, *bad])[-1][1]
    assert isinstance(verdict, Fired)
    assert verdict.evidence["origin"] == "module"
    assert verdict.suggestion.startswith(advice)
    grown = "after loss had grown from 41.4 to 407,438"
    assert (grown in verdict.message) == (before is GROWING), verdict.message


def test_a_norm_that_had_grown_is_named_where_the_loss_had_not() -> None:
    infos = {"gradient_norm": TensorInfo("gradient_norm", ("gradient_norms",), ())}
    norms = [Capture(step, {"gradient_norm": {"value": 4.0**step}}, infos=infos) for step in range(12)]
    verdict = verdicts(NonfiniteOrigin(), [*STEADY, *norms, captured(12, {"loss": {"value": math.inf}})])[-1][1]
    assert isinstance(verdict, Fired)
    assert "after gradient_norm had grown from" in verdict.message


def test_a_weight_from_an_earlier_step_is_the_origin() -> None:
    forward = counts(Net_input_0=0, a_output_0=5)
    assert origin(BAD_LOSS, counts(a_dot_weight=1, b_dot_bias=2), forward) == ("earlier step", "b.bias")


def test_the_first_in_forward_order() -> None:
    assert origin(BAD_LOSS, counts(Net_input_0=2, a_output_0=5, Net_output_0=9)) == ("batch", "Net_input_0")
    assert origin(BAD_LOSS, counts(Net_input_0=0, a_output_0=5, Net_output_0=9)) == ("module", "a_output_0")
    assert origin(BAD_LOSS, counts(Net_input_0=0, a_output_0=0, Net_output_0=0)) == ("loss", "loss")


def test_a_mask_is_not_an_origin() -> None:
    infos = {name: TensorInfo(name, ("layers",), (4, 4)) for name in ("attention_input_3", "attention_output_0")}
    seen = {"attention_input_3": {"nonfinite_count": 6, "nan_count": 0}, "attention_output_0": {"nonfinite_count": 2}}
    assert origin(BAD_LOSS, Capture(3, seen, infos=infos)) == ("module", "attention_output_0")
    seen["attention_input_3"] = {"nonfinite_count": 6, "nan_count": 1}
    assert origin(BAD_LOSS, Capture(3, seen, infos=infos)) == ("between modules", "attention_input_3")


def test_a_nonfinite_gradient_of_a_finite_loss_comes_from_the_backward_pass() -> None:
    good = captured(3, {"loss": {"value": 0.5}})
    assert origin(good, counts(gradient__a_dot_weight=1, gradient__b_dot_bias=1)) == (
        "backward pass",
        "gradient/b.bias",
    )


def test_nonfinite_activations_alone_are_ignored() -> None:
    assert judge(counts(a_output_0=5)) == Clear()


def test_gradients_of_a_skipped_step_are_not_evaluated() -> None:
    assert judge(counts(gradient__a_dot_weight=1), skipped(3)) == Clear()


def test_clear_is_undecided_with_incomplete_data_but_fired_stays() -> None:
    assert isinstance(judge(captured(3, {"loss": {"value": 1.0}}), is_incomplete=True), Undecided)
    assert isinstance(judge(BAD_LOSS, is_incomplete=True), Fired)


def test_the_worker_with_the_bad_loss_is_named() -> None:
    other = captured(3, {"gradient/a.weight": {"nonfinite_count": 1}}, worker="rank0-1")
    own = captured(3, {"loss": {"value": math.nan}}, worker="rank1-2")
    verdict = judge(other, own)
    assert isinstance(verdict, Fired)
    assert (verdict.worker, verdict.tensors) == ("rank1-2", ("loss",))
