"""shared_samples: training samples in validation, and what only looks like it; equal to plain sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.tensors.shared_samples import SharedSamples
from leadline.statistics.bits import fingerprints
from leadline.testing.runs import ArrayStatistics, Capture, Part
from leadline.testing.windows import verdicts

INPUT, LOSS = "Net_input_0", "loss"
INFOS = {INPUT: TensorInfo(INPUT, ("inputs",), (20, 6)), LOSS: TensorInfo(LOSS, ("losses",), ())}
RNG = np.random.default_rng(0)
DATA = RNG.normal(size=(600, 6))
Batches = Iterable[np.ndarray]


def run(trained: Batches, evaluated: Batches, *, has_loss: bool = True) -> list[Part]:
    """Return some training steps, an evaluation, and one more training step with data of its own."""
    parts: list[Part] = []
    steps = [("train", batch) for batch in trained] + [("eval", batch) for batch in evaluated]
    for step, (mode, batch) in enumerate([*steps, ("train", RNG.normal(size=(20, 6)))]):
        arrays = {INPUT: {"fingerprints": fingerprints(batch).tolist()}}
        if has_loss or mode == "train":
            parts.append(Capture(step, {LOSS: {"value": 1.0}}, mode=mode, infos=INFOS))
        parts.append(ArrayStatistics(step, arrays, mode=mode, infos=INFOS))
    return parts


def last(parts: Sequence[Part]) -> Verdict:
    return verdicts(SharedSamples(), parts)[-1][1]


def batches(data: np.ndarray, size: int = 20) -> list[np.ndarray]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def test_training_samples_in_validation_are_counted() -> None:
    mixed = RNG.permutation(DATA[300:500])
    fired = last(run(batches(DATA[:400]), batches(mixed)))
    assert isinstance(fired, Fired)
    assert fired.message == (
        "at least 50 % of the samples that were evaluated are training samples: 100 of 200 are equal to the bit to one "
        "of 420 of those"
    )
    assert fired.tensors == (INPUT,)


def test_other_samples_are_clear() -> None:
    assert last(run(batches(DATA[:400]), batches(DATA[400:]))) == Clear({"remarks": []})
    few = np.concatenate([DATA[391:400], DATA[400:500]])
    assert last(run(batches(DATA[:400]), batches(RNG.permutation(few)))) == Clear({"remarks": []})


def test_the_training_set_beside_another_one_is_clear() -> None:
    both = [*batches(DATA[:200]), *batches(DATA[400:500])]
    assert last(run(batches(DATA[:400]), both)) == Clear({"remarks": []})
    assert last(run(batches(DATA[:400]), both[::-1])) == Clear({"remarks": []})


def test_the_training_set_alone_is_a_remark() -> None:
    verdict = last(run(batches(DATA[:400])[:19], batches(RNG.permutation(DATA[:400]))))
    assert isinstance(verdict, Clear)
    assert verdict.product["remarks"] == [
        "380 of 400 evaluated samples are equal to the bit to training samples: unless the training set is evaluated "
        "on purpose, validation says nothing of new data"
    ]


def test_samples_of_a_small_space_are_equal_by_chance() -> None:
    tokens = RNG.integers(3, size=(600, 6)).astype(float)
    verdict = last(run(batches(tokens[:400]), batches(tokens[400:])))
    assert isinstance(verdict, Clear)
    numbers = RNG.integers(20_000, size=(600, 1)).astype(float)
    assert isinstance(last(run(batches(numbers[:400]), batches(numbers[400:]))), Clear)


def test_a_training_of_one_batch_is_not_judged() -> None:
    verdict = last(run([DATA[:100]] * 4, [DATA[:100]] * 2)[:-2] + run([DATA[:100]] * 8, [])[-4:-2])
    assert isinstance(verdict, NotApplicable)


def test_undecided_without_an_evaluation_with_a_loss() -> None:
    why = Undecided("no evaluation with a loss has ended whose samples were captured")
    assert last(run(batches(DATA[:400]), [])) == why
    assert last(run(batches(DATA[:400]), batches(DATA[:200]), has_loss=False)) == why
    assert last(run(batches(DATA[:400]), batches(DATA[300:500]))[:-2]) == why


@pytest.mark.parametrize("seed", range(30))
def test_equals_plain_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trained = rng.permutation(200)[: rng.integers(40, 200)].tolist()
    evaluated = rng.permutation(np.arange(rng.integers(0, 200), 400))[: rng.integers(40, 200)].tolist()
    verdict = last(run(batches(DATA[trained], 10), batches(DATA[evaluated], 10)))
    shared = [
        [sample for sample in evaluated[at : at + 10] if sample in trained] for at in range(0, len(evaluated), 10)
    ]
    count, known = sum(map(len, shared)), len(trained) + 20
    places = [at for at, batch in enumerate(shared) if batch]
    is_split = bool(places) and 1 - (places[-1] - places[0] + 1) / len(shared) >= 0.25
    sizes = [20, *(min(10, len(of) - at) for of in (trained, evaluated) for at in range(0, len(of), 10))]
    pairs = sum(size * (size - 1) // 2 for size in sizes)
    is_chance = count <= 2 * 3 / pairs * len(evaluated) * known
    expected = count >= 10 and not is_split and count < 0.9 * known and not is_chance
    assert isinstance(verdict, Fired) == expected


@pytest.mark.parametrize("shape", [(20,), (20, 1)])
def test_numbers_of_users_are_no_samples(shape: tuple[int, ...]) -> None:
    """A recommender is given users and films: all users of the validation are in the training."""
    infos = {**INFOS, INPUT: TensorInfo(INPUT, ("inputs",), shape, "int64")}
    parts: list[Part] = []
    for step in range(60):
        mode = "eval" if 40 <= step < 50 else "train"
        users = RNG.integers(50, size=shape)
        parts.append(Capture(step, {LOSS: {"value": 1.0}}, mode=mode, infos=infos))
        arrays = {INPUT: {"fingerprints": fingerprints(users).tolist()}}
        parts.append(ArrayStatistics(step, arrays, mode=mode, infos=infos))
    assert last(parts) == Clear({"remarks": []})


def with_codes(rows: np.ndarray, mode: str, step: int, state: tuple[int, ...] | None = None) -> list[Part]:
    """Return a step of a model that is given two categories and six measures of each sample, and perhaps a state."""
    codes = np.stack([rows % 5, rows % 3], 1)
    given = {INPUT: codes, "Net_input_1": DATA[rows]} | ({} if state is None else {"Net_input_2": np.ones(state)})
    infos = {LOSS: INFOS[LOSS]} | {name: TensorInfo(name, ("inputs",), data.shape) for name, data in given.items()}
    arrays = {name: {"fingerprints": fingerprints(data).tolist()} for name, data in given.items()}
    return [
        Capture(step, {LOSS: {"value": 1.0}}, mode=mode, infos=infos),
        ArrayStatistics(step, arrays, mode=mode, infos=infos),
    ]


@pytest.mark.parametrize("state", [None, (2, 8)])
@pytest.mark.parametrize(("start", "shared"), [(400, 0), (300, 100)])
def test_samples_are_equal_if_all_inputs_are(start: int, shared: int, state: tuple[int, ...] | None) -> None:
    trained, evaluated = np.arange(400), np.arange(start, start + 200)
    steps = [("train", rows) for rows in batches(trained)] + [
        ("eval", rows) for rows in batches(np.random.default_rng(0).permutation(evaluated))
    ]
    parts = [
        part
        for step, (mode, rows) in enumerate([*steps, ("train", trained[:20])])
        for part in with_codes(rows, mode, step, state)
    ]
    verdict = last(parts)
    if shared:
        assert isinstance(verdict, Fired)
        assert f"{shared} of 200 are equal" in verdict.message
    else:
        assert verdict == Clear({"remarks": []})
