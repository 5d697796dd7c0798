"""Implementations of the statistics for accelerators against numpy: one pass, no tensor is read twice."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.frameworks.torch.kernels import cuda_statistics, fused_statistics
from leadline.statistics import arrays
from leadline.statistics.definitions import BASIC

NAMES = (*BASIC, "abs_min", "equals_0", "prod", "rms", "variance", "within_-1_0.5")
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
OTHERS = (torch.int64, torch.int8, torch.uint8, torch.bool, torch.complex64)
PIECE = 64
C_TYPES = ["f", "d", "e", "H", "B", "b", "h", "i", "q"]
"""Numpy's codes of the types of ``fused_statistics.CODES``; bfloat16 is read as the upper half of float32."""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut tensors of a few hundred elements into pieces, like tensors of millions."""
    monkeypatch.setattr(cuda_statistics, "_MATRIX_ELEMENTS", PIECE)
    monkeypatch.setattr(fused_statistics, "_CHUNK_ELEMENTS", PIECE)


def launch_on_host(batch: np.ndarray, numbers: torch.Tensor) -> None:
    """Compute what the kernel computes, from the addresses in the batch, chunk by chunk."""
    chunk, count = batch[:2].tolist()
    first_chunks = batch[fused_statistics.FIRST_CHUNKS :].tolist()
    for index in range(count):
        address, elements, code = (
            int(batch[part + index])
            for part in (fused_statistics.ADDRESSES, fused_statistics.COUNTS, fused_statistics.TYPES)
        )
        dtype = np.dtype(C_TYPES[code])
        values = [np.zeros(0, dtype)]
        for at in range(first_chunks[index + 1] - first_chunks[index]):
            start, end = at * chunk, min((at + 1) * chunk, elements)
            values.append(
                np.frombuffer(ctypes.string_at(address + start * dtype.itemsize, (end - start) * dtype.itemsize), dtype)
            )
        whole = np.concatenate(values)
        assert len(whole) == elements
        if code == fused_statistics.CODES[torch.bfloat16]:
            whole = (whole.astype(np.uint32) << 16).view(np.float32)
        computed = [arrays.primary(name, whole) for name in fused_statistics.PRIMARIES]
        numbers[index] = torch.tensor(computed, dtype=torch.float64)


def compute(tensors: list[torch.Tensor], names: tuple[str, ...] = NAMES) -> dict[str, np.ndarray]:
    """Return the statistics by PyTorch's kernels, and those that the fused kernel supports by that."""
    fused_names = tuple(name for name in names if fused_statistics.supports(name))
    with torch.no_grad():
        numbers, finish = cuda_statistics.begin(tensors, names)
        if any(tensor.layout is not torch.strided for tensor in tensors):
            fused_names = ()
        fused_numbers, finish_fused = fused_statistics.begin(
            [tensor for tensor in tensors if tensor.layout is torch.strided], fused_names, launch_on_host
        )
        copied = numbers.numpy().copy()
        for tensor in tensors:
            if tensor.layout is torch.strided and tensor.numel() and not tensor.is_inference():
                tensor.zero_()  # later changes of the tensors must not matter
    results = dict(zip(names, finish(copied).reshape(len(names), len(tensors)), strict=True))
    fused = finish_fused(fused_numbers.numpy().copy()).reshape(len(fused_names), -1) if fused_names else ()
    return results | {f"fused {name}": row for name, row in zip(fused_names, fused, strict=True)}


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    dense = tensor.to_dense() if tensor.layout is torch.sparse_coo else tensor
    return (dense.float() if dense.dtype in FLOATS[2:] else dense).numpy().copy()


def check(tensors: list[torch.Tensor]) -> None:
    copies = [as_numpy(tensor) for tensor in tensors]
    computed = compute(tensors)
    for index, array in enumerate(copies):
        scale = float(np.abs(array.astype(np.complex128)).sum()) if array.size else 0.0
        for label, row in computed.items():
            name = label.removeprefix("fused ")
            # sums of both signs are accurate only relative to the terms' size; moduli are computed in float32
            tolerance = {"sum": 1e-12 * scale, "mean": 1e-12 * scale / max(array.size, 1)}.get(name, 0.0)
            tolerance = tolerance if np.isfinite(tolerance) else 0.0
            rtol = 1e-9 if array.dtype != np.complex64 else 1e-4
            np.testing.assert_allclose(
                row[index],
                arrays.compute(name, array),
                rtol=rtol,
                atol=tolerance,
                err_msg=f"{label} of {tensors[index].dtype} {tuple(tensors[index].shape)}",
            )


SHAPES = st.lists(st.integers(0, 9), max_size=3).map(tuple)
SPECIAL = ("none", "nan", "inf", "both infinities", "all nan", "all inf", "zeros", "constant", "tiny", "huge")


def make(shape: tuple[int, ...], dtype: torch.dtype, special: str, seed: int) -> torch.Tensor:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    flat = values.view(-1)
    fills = {"zeros": 0.0, "constant": 1.5, "all nan": float("nan")}
    if special in fills:
        flat.fill_(fills[special])
    elif special in ("tiny", "huge"):
        flat.mul_(1e-25 if special == "tiny" else 1e25)
    elif special == "all inf":
        flat.fill_(float("inf"))
        flat[seed % 3 :].neg_()
    elif special != "none" and flat.numel():
        flat[seed % flat.numel()] = float("nan") if special == "nan" else float("inf")
        if special == "both infinities":
            flat[-1] = float("-inf")
    return values.to(dtype)


@given(
    st.lists(
        st.tuples(SHAPES, st.sampled_from(FLOATS), st.sampled_from(SPECIAL), st.integers(0, 99)), min_size=1, max_size=6
    )
)
@settings(max_examples=150, deadline=None)
def test_floats_of_all_shapes_and_special_values(specs: list) -> None:
    check([make(*spec) for spec in specs])


@given(SHAPES, st.sampled_from(OTHERS), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_integers_booleans_and_complex_numbers(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> None:
    check([(make(shape, torch.float64, "none", seed) * 3).to(dtype)])


@pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch warns that sparse checks are off
@pytest.mark.parametrize("values", [[1.0, -2.0], [1.0, 5.0], [], [float("nan"), 1.0], [-1.0, -1.0]])
def test_sparse_tensors_have_their_implicit_zeros(values: list[float]) -> None:
    indices = torch.arange(len(values))[None] * 2
    check([torch.sparse_coo_tensor(indices, torch.tensor(values), (9,)), torch.ones(3)])


@pytest.mark.parametrize(
    "layout",
    [
        lambda x: x.t(),
        lambda x: x[::2],
        lambda x: x[:, 1:5],
        lambda x: x.view(4, 4, 4, -1).to(memory_format=torch.channels_last),
        lambda x: x[0, 0],
    ],
)
def test_memory_layouts(layout) -> None:
    check([layout(torch.randn(16, 16, generator=torch.Generator().manual_seed(1)))])


def test_variance_of_a_nearly_constant_tensor_is_not_lost() -> None:
    values = 1 + 1e-6 * torch.randn(100_000, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    expected = float(values.numpy().std())
    computed = compute([values], ("std",))
    assert [row[0] for row in computed.values()] == pytest.approx([expected, expected], rel=1e-6)


def test_tensors_of_one_size_are_computed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_statistics, "_MATRIX_ELEMENTS", 1 << 21)
    plan = cuda_statistics._Plan([torch.ones(8, 8), torch.ones(64), torch.ones(5), torch.ones(64, dtype=torch.float64)])
    assert [matrix.rows.shape for matrix in plan.matrices()] == [(2, 64), (1, 5), (1, 64)]


def test_unsupported_statistics_are_reported() -> None:
    assert cuda_statistics.supports("within_-1_1")
    assert not cuda_statistics.supports("median_exact")


def test_chunks_of_large_tensors_are_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_statistics, "_MAX_CHUNKS", 4)
    chunks = []

    def keep(batch: np.ndarray, numbers: torch.Tensor) -> None:
        chunks.append((int(batch[0]), int(batch[fused_statistics.FIRST_CHUNKS + int(batch[1])])))
        launch_on_host(batch, numbers)

    tensor = torch.arange(1000.0)
    numbers, finish = fused_statistics.begin([tensor, torch.ones(3)], ("sum", "std"), keep)
    assert chunks == [(256, 5)]
    values = np.arange(1000.0)
    assert finish(numbers.numpy()) == pytest.approx([values.sum(), 3, values.std(), 0])


def test_many_tensors_are_computed_in_several_batches() -> None:
    numbers, finish = fused_statistics.begin([torch.full((2,), float(i)) for i in range(130)], ("max",), launch_on_host)
    assert finish(numbers.numpy()).tolist() == list(range(130))


def test_sparse_tensors_are_left_to_the_kernels_of_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fused_statistics.COMPILERS, "cpu", lambda device: launch_on_host)
    assert fused_statistics.launch_for([torch.ones(2)]) is launch_on_host
    assert fused_statistics.launch_for([torch.ones(2), torch.ones(2).to_sparse()]) is None
