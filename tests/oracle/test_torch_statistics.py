"""Device implementation of every statistic against numpy, for all dtypes, shapes, layouts, NaN and infinity."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_tensors import FLOATS, LAYOUTS, OTHERS, SHAPES, SPECIAL, as_numpy, bits_of, make_tensor, make_values

from leadline.frameworks.torch.kernels import stacks
from leadline.frameworks.torch.kernels.elements import CHUNK_ELEMENTS
from leadline.frameworks.torch.kernels.samples import stride_of
from leadline.frameworks.torch.kernels.statistics import device_statistics
from leadline.statistics import arrays
from leadline.statistics.definitions import FAMILIES, STATISTICS, find_statistic

REDUCED = frozenset(name for name, statistic in STATISTICS.items() if statistic.source == "elements") | {
    "within_-1_1",
    "within_-0.5_inf",
    "within_0.1_0.3",
    "within_2_2",
    "equals_0",
    "equals_-0.1",
    "equals_1.5",
}
ORDERED = frozenset({"median", "median_exact", "p0", "p5", "p33.3_exact", "p99.9", "p100"})
NAMES = REDUCED | ORDERED | {"checksum", "batch_std"}


def test_all_scalar_statistics_of_one_tensor_are_compared() -> None:
    known = [*STATISTICS.values(), *(find_statistic(family.example) for family in FAMILIES)]
    compared = {statistic.family or statistic.name for statistic in map(find_statistic, NAMES)}
    assert compared >= {
        statistic.family or statistic.name
        for statistic in known
        if not statistic.is_vector and statistic.source not in ("number", "update", "change")
    }


def check(tensors: list[torch.Tensor], names: frozenset[str] = NAMES) -> None:
    with torch.no_grad():
        computed = device_statistics(tensors, names)
    assert set(computed) == names
    for index, tensor in enumerate(tensors):
        array = as_numpy(tensor)
        with np.errstate(invalid="ignore"):
            moduli = np.abs(array.astype(np.complex128))
        for name in names:
            assert computed[name].shape == (len(tensors),)
            if name == "prod" and not _is_safe(moduli):
                continue  # depending on the order of its factors it passes through zero or infinity
            given_values = bits_of(tensor) if name == "checksum" and tensor.layout is torch.strided else array
            expected = arrays.compute(name, given_values)
            tolerance = _tolerance(name, moduli)
            np.testing.assert_allclose(
                computed[name][index],
                expected,
                rtol=0 if name == "checksum" else 3e-5,
                atol=tolerance if np.isfinite(tolerance) else 0.0,
                err_msg=f"{name} of {tensor.dtype} {tuple(tensor.shape)}",
            )


def _tolerance(name: str, moduli: np.ndarray) -> float:
    """Sums of both signs and differences of nearly equal numbers are accurate only relative to the terms' size."""
    if not moduli.size:
        return 0.0
    scales = {"sum": moduli.sum(), "mean": moduli.mean(), "std": moduli.max(), "batch_std": moduli.max()}
    return 1e-6 * float(scales.get(name, 0.0)) if name != "variance" else float(1e-6 * moduli.max()) ** 2


def _is_safe(moduli: np.ndarray) -> bool:
    with np.errstate(all="ignore"):
        logs = np.log2(moduli)
    return not moduli.size or bool(np.isfinite(logs).all() and np.abs(logs).sum() < 900)


@given(
    st.lists(st.tuples(SHAPES, st.sampled_from(FLOATS), SPECIAL, st.integers(0, 99), LAYOUTS), min_size=1, max_size=4)
)
@settings(max_examples=100, deadline=None)
def test_floats_of_all_shapes_layouts_and_special_values(specs: list) -> None:
    check([make_tensor(*spec) for spec in specs])


@given(SHAPES, st.sampled_from(OTHERS), SPECIAL, st.integers(0, 99), LAYOUTS)
@settings(max_examples=60, deadline=None)
def test_integers_booleans_and_complex_numbers(
    shape: tuple[int, ...], dtype: torch.dtype, special: str, seed: int, layout: str
) -> None:
    special = special if dtype.is_complex else "whole"
    check([make_tensor(shape, dtype, special, seed, layout)])


@pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch warns that sparse checks are off
@pytest.mark.parametrize("values", [[1.0, -2.0], [1.0, 5.0], [], [float("nan"), 1.0], [-1.0, -1.0]])
def test_sparse_tensors_have_their_implicit_zeros(values: list[float]) -> None:
    indices = torch.arange(len(values))[None] * 2
    check([torch.sparse_coo_tensor(indices, torch.tensor(values), (9,))], NAMES - {"checksum"})


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_checksum_of_sparse_tensors_depends_on_indices_and_values() -> None:
    def sparse(places: list[int], values: list[float]) -> torch.Tensor:
        return torch.sparse_coo_tensor(torch.tensor([places]), torch.tensor(values), (9,))

    tensors = [
        sparse([1, 4], [2.0, 3.0]),
        sparse([4, 1], [3.0, 2.0]),
        sparse([1, 5], [2.0, 3.0]),
        sparse([1, 4], [2.0, 3.5]),
    ]
    with torch.no_grad():
        first, same, moved, other = device_statistics(tensors, frozenset({"checksum"}))["checksum"]
    assert first == same
    assert len({first, moved, other}) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.flip(0),
        lambda x: x.neg(),
        lambda x: x.roll(1),
        lambda x: torch.nextafter(x, x + 1),
        lambda x: x[:-1],
        lambda x: torch.where(torch.arange(x.shape[1]) < 2, -x, x),
        lambda x: x.t().contiguous().view(x.shape).flip(1),
    ],
)
def test_the_checksum_detects_changes_of_bits_and_order(change) -> None:
    values = torch.randn(40, 30, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        one, other, same = device_statistics([values, change(values), values.clone()], frozenset({"checksum"}))[
            "checksum"
        ]
    assert one == same
    assert one != other
    assert 0 <= one < 2**48


def test_a_single_element_of_a_strided_row() -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.complex64):
        check([torch.ones(2, dtype=dtype)[::2], torch.ones(2, 6, dtype=dtype)[:1, ::3][:, :1]])


def test_large_tensors_are_combined_from_chunks() -> None:
    generator = torch.Generator().manual_seed(2)
    whole = torch.randn(2 * CHUNK_ELEMENTS + 17, generator=generator) * 3 + 100
    broken = whole.clone()
    broken[CHUNK_ELEMENTS + 5] = float("nan")
    drifting = torch.linspace(-1, 1, 3 * CHUNK_ELEMENTS)
    exact = frozenset(name for name in NAMES if not find_statistic(name).is_sampled)
    check([whole, broken, drifting, torch.randn(5, generator=generator)], exact)
    check([whole.view(-1)[:CHUNK_ELEMENTS].view(512, 512).t().to(torch.bfloat16)], exact)


@pytest.mark.parametrize(
    "arrange",
    [
        lambda x: x,
        lambda x: x.sort().values,
        lambda x: x.view(256, 256),
        lambda x: x.view(16, 16, 16, 16),
        lambda x: x.view(16, 16, 16, 16).to(memory_format=torch.channels_last),
        lambda x: x.double(),
        lambda x: x[:4097],
        lambda x: x[:8191],
        lambda x: x[:30030],
        lambda x: x.view(-1, 16) * torch.arange(16.0),
    ],
)
def test_percentiles_from_a_sample_have_the_documented_accuracy(arrange) -> None:
    values = arrange(torch.randn(65536, generator=torch.Generator().manual_seed(4)).exp())
    with torch.no_grad():
        computed = device_statistics([values], frozenset({"median", "p5", "p95"}))
    flat = np.sort(values.numpy().ravel())
    for name, percent in (("median", 50), ("p5", 5), ("p95", 95)):
        rank = np.searchsorted(flat, computed[name][0]) / len(flat) * 100
        error = 1.4 if values.numel() > 17_000 else 2.7
        assert abs(rank - percent) < 4 * error, name  # four standard deviations


def test_a_sample_has_the_documented_size_and_covers_rows_and_columns() -> None:
    for size in (*range(1, 20_000, 7), 4620, 65536, 196_608, 589_824, 10_000_019):
        stride = stride_of(size)
        kept = -(-size // stride)
        assert kept <= 4096
        assert kept >= min(size, 1300 if size > 17_000 else 350)
        assert np.gcd(stride, size) == 1


def test_a_band_is_the_same_in_all_dtypes() -> None:
    """A limit that float32 cannot represent must not include the neighbouring float32."""
    bound = 9.4999
    near = np.float32(bound)
    values = torch.from_numpy(np.array([near, np.nextafter(near, np.float32(10)), np.nextafter(near, np.float32(0))]))
    with torch.no_grad():
        for tensor in (values, values.double(), values.repeat(CHUNK_ELEMENTS)):
            computed = device_statistics([tensor], frozenset({"within_-9.4999_9.4999", "within_9.4999_inf"}))
            for name, values_in_band in computed.items():
                assert values_in_band[0] == arrays.compute(name, tensor.numpy()), name


def test_variance_of_a_nearly_constant_tensor_is_not_lost() -> None:
    values = 1 + 1e-3 * torch.randn(100_000, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        computed = device_statistics([values], frozenset({"std"}))["std"][0]
    assert computed == pytest.approx(arrays.compute("std", values.numpy()), rel=1e-3)


def test_half_precision_neither_overflows_nor_rounds() -> None:
    values = torch.ones(100_000, dtype=torch.float16)
    with torch.no_grad():
        computed = device_statistics([values], frozenset({"sum", "l1", "l2", "nonfinite_count"}))
    assert computed["sum"][0] == 100_000
    assert computed["l1"][0] == 100_000
    assert computed["nonfinite_count"][0] == 0


def test_random_state_and_tensors_are_unchanged() -> None:
    tensors = [make_values((100,), "none", 1), make_values((CHUNK_ELEMENTS + 1,), "none", 2).float()]
    before, state = [tensor.clone() for tensor in tensors], torch.get_rng_state()
    with torch.no_grad():
        device_statistics(tensors, NAMES)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(one, other) for one, other in zip(before, tensors, strict=True))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make tensors of a few dozen elements fill several blocks, and larger ones chunks."""
    monkeypatch.setattr(stacks, "STACKED_ELEMENTS", 40)
    monkeypatch.setattr(stacks, "_BLOCK_ELEMENTS", 64)
    stacks._PLANS.clear()
    yield
    stacks._PLANS.clear()


FEW_SHAPES = st.sampled_from(
    [(), (1,), (4,), (0, 3), (4, 3), (3, 4), (2, 3, 4), (2, 2, 2, 2), (7, 7), (5, 8), (3, 5, 5)]
)


@given(
    st.lists(
        st.tuples(
            FEW_SHAPES,
            st.sampled_from((*FLOATS[:4], torch.int64, torch.bool, torch.complex64)),
            SPECIAL,
            st.integers(0, 99),
            LAYOUTS,
        ),
        min_size=1,
        max_size=40,
    )
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_many_tensors_of_few_shapes_in_several_blocks(small_blocks: None, specs: list) -> None:
    def tensor(shape: tuple[int, ...], dtype: torch.dtype, special: str, seed: int, layout: str) -> torch.Tensor:
        is_whole = not dtype.is_floating_point and not dtype.is_complex
        return make_tensor(shape, dtype, "whole" if is_whole else special, seed, layout)

    check([tensor(*spec) for spec in specs])


@pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch warns that sparse checks are off
def test_sparse_tensors_among_dense_ones(small_blocks: None) -> None:
    sparse = torch.sparse_coo_tensor(torch.tensor([[1, 3]]), torch.tensor([float("nan"), -2.0]), (9,))
    broken = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.tensor([float("inf")]), (9,))
    dense = [make_values((3, 3), special, 1).float() for special in ("none", "nan", "both infinities")]
    check([dense[0], sparse, dense[1], broken, dense[2]], NAMES - {"checksum"})


def test_tensors_that_share_storage() -> None:
    whole = torch.randn(4, 6, generator=torch.Generator().manual_seed(5))
    check([whole, whole, whole.t(), whole[1:], whole[:, ::2], whole.view(-1), whole[2], whole[0, 0]])


def test_parameters_are_read_without_autograd() -> None:
    parameters = [torch.nn.Parameter(make_values((3, 3), "none", seed)) for seed in range(3)]
    with torch.no_grad():
        computed = device_statistics(parameters, frozenset({"sum"}))["sum"]
    np.testing.assert_allclose(computed, [float(parameter.detach().sum()) for parameter in parameters])
    assert all(parameter.grad_fn is None and parameter.grad is None for parameter in parameters)


def test_tiny_and_huge_elements_of_float32_neither_vanish_nor_overflow() -> None:
    check([torch.full((5,), 1e-38), torch.full((5,), 1e-44), torch.full((5,), 3e38), torch.tensor([3e38, -3e38, 1.0])])
