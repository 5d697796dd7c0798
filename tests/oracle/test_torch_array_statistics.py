"""Array statistics on a device against numpy, for all dtypes, shapes, layouts, NaN and infinity."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_tensors import FLOATS, LAYOUTS, OTHERS, SHAPES, SPECIAL, as_numpy, make_tensor

from leadline.frameworks.torch.kernels.array_statistics import class_counts, confusion, device_vectors
from leadline.statistics import arrays
from leadline.statistics.definitions import FAMILIES, MAX_CLASSES, STATISTICS, find_statistic

NAMES = (
    "histogram",
    "histogram_exact",
    "quantile_means",
    "unit_activity",
    "unit_mean",
    "unit_std",
    "unit_within_-0.5_0.5",
    "unit_within_0_inf",
    "class_counts",
    "fingerprints",
)


def test_all_array_statistics_of_one_tensor_are_compared() -> None:
    known = [*STATISTICS.values(), *(find_statistic(family.example) for family in FAMILIES)]
    compared = {statistic.family or statistic.name for statistic in map(find_statistic, NAMES)}
    assert compared == {
        statistic.family or statistic.name
        for statistic in known
        if statistic.is_vector and statistic.name != "confusion"
    }


def check(tensors: list[torch.Tensor], names: tuple[str, ...] = NAMES) -> None:
    with torch.no_grad():
        computed = device_vectors(tensors, names)
    for tensor, results in zip(tensors, computed, strict=True):
        # The modulus of a complex number differs in its last bit between libraries, which matters on the edge of a bin.
        array = as_numpy(tensor.abs() if tensor.is_complex() else tensor)
        with np.errstate(invalid="ignore"):
            moduli = np.abs(array.astype(np.complex128))
        for name, result in zip(names, results, strict=True):
            tolerance = 1e-12 * moduli.max(initial=0) if name in ("quantile_means", "unit_mean", "unit_std") else 0
            np.testing.assert_allclose(
                arrays.trimmed(name, result.numpy()),
                arrays.compute_vector(name, array),
                rtol=1e-6,
                atol=tolerance if np.isfinite(tolerance) else 0,
                err_msg=f"{name} of {tensor.dtype} {tuple(tensor.shape)}",
            )


@given(
    st.lists(st.tuples(SHAPES, st.sampled_from(FLOATS), SPECIAL, st.integers(0, 99), LAYOUTS), min_size=1, max_size=4)
)
@settings(max_examples=100, deadline=None)
def test_float_types(specs: list) -> None:
    check([make_tensor(*spec) for spec in specs])


@given(SHAPES, st.sampled_from(OTHERS), SPECIAL, st.integers(0, 99), LAYOUTS)
@settings(max_examples=60, deadline=None)
def test_integers_booleans_and_complex_numbers(
    shape: tuple[int, ...], dtype: torch.dtype, special: str, seed: int, layout: str
) -> None:
    check([make_tensor(shape, dtype, special if dtype.is_complex else "whole", seed, layout)])


@pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch warns that sparse checks are off
def test_sparse_tensors_have_their_implicit_zeros() -> None:
    check([torch.sparse_coo_tensor(torch.tensor([[0, 2], [1, 1]]), torch.tensor([2.0, -1.0]), (4, 3))])


def test_a_unit_is_a_channel_or_a_feature() -> None:
    sizes = [
        device_vectors([torch.zeros(shape)], ("unit_mean",))[0][0].numel()
        for shape in [(5, 3), (5, 7, 3), (5, 3, 7, 7), (5, 3, 7, 7, 7), (5,), ()]
    ]
    assert sizes == [3, 3, 3, 3, 1, 1]


def test_large_tensors_are_processed_in_chunks() -> None:
    values = torch.randn(700, 8, 40, 11, generator=torch.Generator().manual_seed(1)) + 5
    check([values], ("unit_mean", "unit_std", "unit_activity", "unit_within_4_6", "histogram_exact"))


def test_the_histogram_of_a_large_tensor_uses_a_sample() -> None:
    values = torch.randn(100_000, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        ((histogram,),) = device_vectors([values], ("histogram",))
    assert 1300 < histogram[2:].sum() <= 4096
    exact = np.histogram(values.numpy(), 30, (float(histogram[0]), float(histogram[1])))[0] / 100_000
    np.testing.assert_allclose(histogram[2:].numpy() / float(histogram[2:].sum()), exact, atol=4 * 0.0078)


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
def test_confusion_matrices(
    samples: int, classes: int, extents: list[int], dtype: torch.dtype, special: str, seed: int, layout: str
) -> None:
    logits = make_tensor((samples, classes, *extents), dtype, special, seed, layout)
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(-1, classes + 2, (samples, *extents), generator=generator)
    soft = torch.rand(logits.shape, generator=generator)
    for given_labels in (labels, soft):
        counts = confusion(given_labels, logits)
        assert counts is not None
        expected = arrays.confusion(given_labels.numpy(), as_numpy(logits))
        assert expected is not None
        assert counts.numpy().tolist() == expected.tolist()
        assert counts.dtype is torch.int32


def test_small_confusion_matrices() -> None:
    logits = torch.tensor([[2.0, 1, 0], [0, 3, 1], [0, 1, 2], [5, 0, 0], [1, 0, 0]])
    counts = confusion(torch.tensor([0, 1, 1, 2, -100]), logits)
    assert counts is not None
    assert counts.tolist() == [[1, 0, 0], [0, 1, 1], [1, 0, 0]]
    binary = confusion(torch.tensor([0.0, 1.0, 1.0]), torch.tensor([-1.0, 2.0, -3.0]))
    assert binary is not None
    assert binary.tolist() == [[1, 0], [1, 1]]
    probabilities = confusion(torch.tensor([[0], [1]]), torch.tensor([[0.4], [0.6]]), threshold=0.5)
    assert probabilities is not None
    assert probabilities.tolist() == [[1, 0], [0, 1]]
    one = confusion(torch.tensor(1), torch.tensor([0.0, 1.0, 0.5]))
    assert one is not None
    assert one.tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]


def test_more_than_the_max_number_of_classes() -> None:
    assert confusion(torch.zeros(2, dtype=torch.int64), torch.zeros(2, MAX_CLASSES + 1)) is None
    assert arrays.confusion(np.zeros(2, np.int64), np.zeros((2, MAX_CLASSES + 1))) is None
    labels = torch.tensor([0, 0, 999, 1000, 50_000, -100])
    counts = arrays.trimmed("class_counts", class_counts(labels).numpy())
    assert counts.tolist() == arrays.class_counts(labels.numpy()).tolist()
    assert (counts[0], counts[999], counts.sum(), len(counts)) == (2, 1, 3, MAX_CLASSES)


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 3), (6, 1), (6,), (2, 1500)])
def test_class_counts_of_logits(shape: tuple[int, ...]) -> None:
    logits = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    counts = arrays.trimmed("class_counts", class_counts(logits).numpy())
    assert counts.tolist() == arrays.class_counts(logits.numpy()).tolist()
