"""The statistics that are arrays, on a device against numpy, over types, shapes, layouts, NaN and infinity."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_tensors import FLOATS, LAYOUTS, OTHERS, SHAPES, SPECIAL, as_numpy, make

from leadline.frameworks.torch.kernels.array_statistics import class_counts, confusion, device_vectors
from leadline.statistics import arrays
from leadline.statistics.definitions import FAMILIES, MOST_CLASSES, STATISTICS, find_statistic

NAMES = (
    "histogram",
    "histogram_exact",
    "unit_activity",
    "unit_mean",
    "unit_std",
    "unit_within_-0.5_0.5",
    "unit_within_0_inf",
    "class_counts",
)


def test_every_array_of_one_tensor_is_among_those_that_are_compared() -> None:
    known = [*STATISTICS.values(), *(find_statistic(each.example) for each in FAMILIES)]
    here = {each.family or each.name for each in map(find_statistic, NAMES)}
    assert here == {each.family or each.name for each in known if each.is_vector and each.name != "confusion"}


def check(tensors: list[torch.Tensor], names: tuple[str, ...] = NAMES) -> None:
    with torch.no_grad():
        computed = device_vectors(tensors, names)
    for tensor, found in zip(tensors, computed, strict=True):
        array = as_numpy(tensor)
        with np.errstate(invalid="ignore"):
            moduli = np.abs(array.astype(np.complex128))
        for name, each in zip(names, found, strict=True):
            room = 1e-12 * moduli.max(initial=0) if name in ("unit_mean", "unit_std") else 0
            np.testing.assert_allclose(
                arrays.tidy(name, each.numpy()),
                arrays.compute_vector(name, array),
                rtol=1e-6,
                atol=room if np.isfinite(room) else 0,
                err_msg=f"{name} of {tensor.dtype} {tuple(tensor.shape)}",
            )


@given(
    st.lists(st.tuples(SHAPES, st.sampled_from(FLOATS), SPECIAL, st.integers(0, 99), LAYOUTS), min_size=1, max_size=4)
)
@settings(max_examples=100, deadline=None)
def test_floats(wishes: list) -> None:
    check([make(*wish) for wish in wishes])


@given(SHAPES, st.sampled_from(OTHERS), SPECIAL, st.integers(0, 99), LAYOUTS)
@settings(max_examples=60, deadline=None)
def test_whole_numbers_booleans_and_complex(
    shape: tuple[int, ...], dtype: torch.dtype, special: str, seed: int, layout: str
) -> None:
    check([make(shape, dtype, special if dtype.is_complex else "whole", seed, layout)])


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch warns that sparse checks are off
def test_sparse_tensors_have_their_implicit_zeros() -> None:
    check([torch.sparse_coo_tensor(torch.tensor([[0, 2], [1, 1]]), torch.tensor([2.0, -1.0]), (4, 3))])


def test_a_unit_is_a_channel_or_a_feature() -> None:
    sizes = [
        device_vectors([torch.zeros(shape)], ("unit_mean",))[0][0].numel()
        for shape in [(5, 3), (5, 7, 3), (5, 3, 7, 7), (5, 3, 7, 7, 7), (5,), ()]
    ]
    assert sizes == [3, 3, 3, 3, 1, 1]


def test_large_tensors_are_read_in_pieces() -> None:
    values = torch.randn(700, 8, 40, 11, generator=torch.Generator().manual_seed(1)) + 5
    check([values], ("unit_mean", "unit_std", "unit_activity", "unit_within_4_6", "histogram_exact"))


def test_a_histogram_of_a_large_tensor_counts_a_sample() -> None:
    values = torch.randn(100_000, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        ((found,),) = device_vectors([values], ("histogram",))
    assert 1300 < found[2:].sum() <= 4096
    exact = np.histogram(values.numpy(), 30, (float(found[0]), float(found[1])))[0] / 100_000
    np.testing.assert_allclose(found[2:].numpy() / float(found[2:].sum()), exact, atol=4 * 0.0078)


@given(
    st.integers(1, 7),
    st.integers(1, 6),
    st.lists(st.integers(1, 3), max_size=2),
    st.sampled_from(FLOATS),
    SPECIAL,
    st.integers(0, 99),
    LAYOUTS.filter(lambda layout: layout != "expanded"),
)
@settings(max_examples=100, deadline=None)
def test_confusion(
    samples: int, classes: int, places: list[int], dtype: torch.dtype, special: str, seed: int, layout: str
) -> None:
    logits = make((samples, classes, *places), dtype, special, seed, layout)
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(-1, classes + 2, (samples, *places), generator=generator)
    soft = torch.rand(logits.shape, generator=generator)
    for given_labels in (labels, soft):
        found = confusion(given_labels, logits)
        assert found is not None
        expected = arrays.confusion(given_labels.numpy(), as_numpy(logits))
        assert expected is not None
        assert found.numpy().tolist() == expected.tolist()
        assert found.dtype is torch.int32


def test_confusion_by_hand() -> None:
    logits = torch.tensor([[2.0, 1, 0], [0, 3, 1], [0, 1, 2], [5, 0, 0], [1, 0, 0]])
    found = confusion(torch.tensor([0, 1, 1, 2, -100]), logits)
    assert found is not None
    assert found.tolist() == [[1, 0, 0], [0, 1, 1], [1, 0, 0]]
    binary = confusion(torch.tensor([0.0, 1.0, 1.0]), torch.tensor([-1.0, 2.0, -3.0]))
    assert binary is not None
    assert binary.tolist() == [[1, 0], [1, 1]]
    probabilities = confusion(torch.tensor([[0], [1]]), torch.tensor([[0.4], [0.6]]), threshold=0.5)
    assert probabilities is not None
    assert probabilities.tolist() == [[1, 0], [0, 1]]
    one = confusion(torch.tensor(1), torch.tensor([0.0, 1.0, 0.5]))
    assert one is not None
    assert one.tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]


def test_beyond_the_most_classes() -> None:
    assert confusion(torch.zeros(2, dtype=torch.int64), torch.zeros(2, MOST_CLASSES + 1)) is None
    assert arrays.confusion(np.zeros(2, np.int64), np.zeros((2, MOST_CLASSES + 1))) is None
    labels = torch.tensor([0, 0, 999, 1000, 50_000, -100])
    counts = arrays.tidy("class_counts", class_counts(labels).numpy())
    assert counts.tolist() == arrays.class_counts(labels.numpy()).tolist()
    assert (counts[0], counts[999], counts.sum(), len(counts)) == (2, 1, 3, MOST_CLASSES)


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 3), (6, 1), (6,), (2, 1500)])
def test_class_counts_of_logits(shape: tuple[int, ...]) -> None:
    logits = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    found = arrays.tidy("class_counts", class_counts(logits).numpy())
    assert found.tolist() == arrays.class_counts(logits.numpy()).tolist()
