"""check_input_images and nlp_sequence_ratio: the inputs of the model."""

from __future__ import annotations

import math

import pytest
from generated_runs import arrays_of

from leadline.errors import ConfigurationError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.check_input_images import CheckInputImages
from leadline.rules.tensors.nlp_sequence_ratio import NLPSequenceRatio
from leadline.testing.runs import Capture, RawTensors
from leadline.testing.windows import verdicts


def images(rule: CheckInputImages, *steps: tuple[int, list[float]], tensor: str = "Net_input_0") -> list[Verdict]:
    parts: list[Capture | RawTensors] = []
    for step, (count, means) in enumerate(steps):
        info = {tensor: TensorInfo(tensor, ("inputs",), (count, len(means), 4, 4))}
        vectors = arrays_of(step, {f"{tensor}@unit_mean": means})
        parts += [Capture(step, {tensor: {"max": 1.0}}, infos=info), vectors]
    return [verdict for _, verdict in verdicts(rule, parts)]


def test_clear_on_its_bound_and_fired_beyond_on_either_side() -> None:
    rule = CheckInputImages(threshold_samples=8)
    assert images(rule, (8, [0.2, -0.2])) == [Clear()]
    for mean in (math.nextafter(0.2, 1), math.nextafter(-0.2, -1)):
        assert isinstance(images(rule, (8, [0.0, mean]))[0], Fired)


def test_batches_are_weighted_by_their_images_and_then_reset() -> None:
    results = images(CheckInputImages(threshold_samples=8), (6, [0.0]), (2, [1.0]), (2, [1.0]))
    assert results[0] == Undecided("6 of 8 images needed", stage="too few")
    assert isinstance(results[1], Fired)
    assert results[1].message == "Net_input_0: the mean of channel 0 over 8 images is 0.25, beyond 0.2"
    assert results[2] == Undecided("2 of 8 images needed", stage="too few")


def test_a_nonfinite_mean_is_not_evaluated() -> None:
    rule = CheckInputImages(threshold_samples=1)
    assert isinstance(images(rule, (1, [math.nan, math.inf]))[0], Undecided)
    assert images(rule, (1, [math.nan, 0.0])) == [Clear()]


def test_only_the_first_input_and_only_images() -> None:
    rule = CheckInputImages(threshold_samples=1)
    assert images(rule, (1, [5.0]), tensor="Net_input_1") == []
    info = {"Net_input_0": TensorInfo("Net_input_0", ("inputs",), (500, 3))}
    table = [Capture(0, {"Net_input_0": {"max": 1.0}}, infos=info), arrays_of(0, {"Net_input_0@unit_mean": [9.0] * 3})]
    assert isinstance(verdicts(rule, table)[0][1], Undecided)


def test_channels_in_the_last_dimension_are_read_from_raw_images() -> None:
    rule = CheckInputImages(threshold_samples=1, channel=3)
    assert all(need.raw and not need.statistics for need in rule.needs().tensors)
    pixels = arrays_of(0, {"Net_input_0": [0.0, 1.0] * 4})
    shaped = {name: (dtype, (1, 2, 2, 2), data) for name, (dtype, _, data) in pixels.tensors.items()}
    info = {"Net_input_0": TensorInfo("Net_input_0", ("inputs",), (1, 2, 2, 2))}
    parts = [Capture(0, {"Net_input_0": {"max": 1.0}}, infos=info), RawTensors(0, shaped)]
    ((_, fired),) = verdicts(rule, parts)
    assert isinstance(fired, Fired)
    assert fired.evidence["means"] == [0.0, 1.0]


def tokens(rule: NLPSequenceRatio, values: dict[str, dict[str, float]]) -> Verdict:
    ((_, verdict),) = verdicts(rule, [Capture(0, values)], shapes=dict.fromkeys(values, (4, 250)))
    return verdict


def test_fires_above_half_padding() -> None:
    first = "encoder.embedding_input_0"
    assert tokens(NLPSequenceRatio(), {first: {"equals_0": 0.5}}) == Clear()
    fired = tokens(NLPSequenceRatio(), {first: {"equals_0": 0.75}})
    assert isinstance(fired, Fired)
    assert fired.message == f"{first}: 75 % of 1,000 tokens are 0, more than 50 %"
    assert isinstance(tokens(NLPSequenceRatio(), {first: {"equals_0": math.nan}}), Undecided)


def test_of_several_embeddings_the_first_is_evaluated() -> None:
    values = {"tokens.embedding_input_0": {"equals_0": 0.1}, "segments.embedding_input_0": {"equals_0": 1.0}}
    assert tokens(NLPSequenceRatio(), values) == Clear()
    named = NLPSequenceRatio(tensor_regex=("segments",))
    assert isinstance(tokens(named, values), Fired)


def test_a_bag_of_embeddings_takes_tokens_too() -> None:
    assert isinstance(tokens(NLPSequenceRatio(), {"0.embeddingbag_input_0": {"equals_0": 0.9}}), Fired)


def test_each_token_has_its_own_threshold() -> None:
    rule = NLPSequenceRatio(token_values=(0, 103), token_thresholds_percent=(90.0, 10.0))
    assert {need.statistics for need in rule.needs().tensors} == {("equals_0", "equals_103")}
    fired = tokens(rule, {"embedding0_input_0": {"equals_0": 0.8, "equals_103": 0.11}})
    assert isinstance(fired, Fired)
    assert "are 103, more than 10 %" in fired.message


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="token_values has 2 numbers and token_thresholds_percent 1"):
        NLPSequenceRatio(token_values=(0, 1))
    with pytest.raises(ConfigurationError, match="channel must be an integer >= 1 and <= 3, not 0"):
        CheckInputImages(channel=0)
    with pytest.raises(ConfigurationError, match="regex '\\(' is not a valid regular expression"):
        CheckInputImages(regex="(")
