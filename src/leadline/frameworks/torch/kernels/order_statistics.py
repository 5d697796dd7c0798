"""Order, checksum, batch and change statistics, with one implementation for all devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from leadline.frameworks.torch.kernels.deltas import Deltas
from leadline.frameworks.torch.kernels.samples import sorted_rows
from leadline.frameworks.torch.kernels.stacks import StackPlan, are_dense, stack_plan
from leadline.statistics.bits import CHUNK_LANES, combine, combine_single, weights
from leadline.statistics.definitions import Source, Statistic, find_statistic

Vector = npt.NDArray[np.float64]
Finish = Callable[[Vector], Vector]

SOURCES: Final = frozenset({"sample", "order", "bits", "batch", "change"})
"""Sources of the statistics that are implemented here."""
_MATRIX_ELEMENTS: Final = 1 << 21
"""Number of elements converted to float64 at once."""


class PreviousValues:
    """Names of tensors, and the values kept under these names at the previous capture."""

    def __init__(self, deltas: Deltas, names: Sequence[str]) -> None:
        self.deltas, self.names = deltas, names


def begin(
    tensors: Sequence[torch.Tensor], statistics: Sequence[str], previous: PreviousValues | None = None
) -> tuple[torch.Tensor, Finish]:
    """Start computing statistics of many tensors on their device, without waiting for it.

    Args:
        tensors: Readable tensors (``elements.unreadable_reason``) on one device.
        statistics: Names of scalar statistics whose source is in ``SOURCES``.
        previous: Names and previous values, for change statistics; None: those are NaN.
    Shape:
        Numbers on the device: ``(n,)``, float64; the second result turns them, on the host, into
        ``(len(statistics) * len(tensors),)``, ordered by statistic.
    Not a number:
        As defined in ``statistics.definitions``.
    """
    by_source: dict[Source, list[Statistic]] = {}
    for name in statistics:
        by_source.setdefault(find_statistic(name).source, []).append(find_statistic(name))
    parts: list[tuple[list[Statistic], torch.Tensor, Finish]] = []
    for source, requested in by_source.items():
        parts.append((requested, *_begin_source(source, tensors, requested, previous)))
    numbers = torch.cat([part.to(tensors[0].device) for _, part, _ in parts])
    count = len(tensors)  # finish() runs later and must not hold tensors of the training

    def finish(fetched: Vector) -> Vector:
        results, at = {}, 0
        for requested, part, finish_part in parts:
            values = finish_part(fetched[at : at + part.numel()]).reshape(len(requested), count)
            results.update({statistic.name: row for statistic, row in zip(requested, values, strict=True)})
            at += part.numel()
        return np.concatenate([results[name] for name in statistics])

    return numbers, finish


def _begin_source(
    source: Source, tensors: Sequence[torch.Tensor], requested: Sequence[Statistic], previous: PreviousValues | None
) -> tuple[torch.Tensor, Finish]:
    if source in ("sample", "order"):
        return _begin_order(tensors, requested, is_sampled=source == "sample")
    if source == "bits":
        return _begin_checksums(tensors)
    if source == "batch":
        return torch.stack([batch_std(tensor) for tensor in tensors]), lambda fetched: fetched
    count = len(tensors)
    if previous is None:
        return _no_numbers(tensors[0].device), lambda fetched: np.full(len(requested) * count, np.nan)
    return previous.deltas.begin(previous.names, tensors, [statistic.name for statistic in requested])


def _begin_order(
    tensors: Sequence[torch.Tensor], requested: Sequence[Statistic], *, is_sampled: bool
) -> tuple[torch.Tensor, Finish]:
    percents = [statistic.arguments[0] if statistic.arguments else 50.0 for statistic in requested]
    owners: list[int] = []
    count = len(tensors)
    blocks: list[torch.Tensor] = []
    for rows in sorted_rows(tensors, is_sampled=is_sampled):
        owners += rows.owners
        blocks.append(rows.percentiles(percents))
    if not blocks:
        return _no_numbers(tensors[0].device), lambda fetched: np.full(len(requested) * count, np.nan)

    def finish(fetched: Vector) -> Vector:
        # on the host: copying an index to the device would synchronize
        results = np.full((len(requested), count), np.nan)
        results[:, owners] = fetched.reshape(len(requested), -1)
        return results.reshape(-1)

    return torch.cat(blocks, 1).reshape(-1), finish


def _no_numbers(device: torch.device) -> torch.Tensor:
    return torch.zeros(0, dtype=torch.float64, device=device)


def batch_std(tensor: torch.Tensor) -> torch.Tensor:
    """Return the feature mean of the standard deviation over samples, as ``arrays.batch_std``; ``()``, float64."""
    dense = tensor.to_dense() if tensor.layout is torch.sparse_coo else tensor
    if not dense.numel() or not dense.dim():
        return torch.full((), float("nan"), dtype=torch.float64, device=tensor.device)
    matrix = dense.reshape(len(dense), -1)
    total = torch.zeros((), dtype=torch.float64, device=tensor.device)
    for part in matrix.split(max(_MATRIX_ELEMENTS // len(dense), 1), dim=1):
        wide = to_float64(part)
        off = wide - wide.mean(0)
        total += (off * off).mean(0).sqrt().sum()
    return total / matrix.shape[1]


def to_float64(part: torch.Tensor) -> torch.Tensor:
    """Convert to float64; complex numbers to their moduli."""
    real = part.abs() if part.is_complex() else part
    return (real.float() if real.is_floating_point() and real.element_size() == 1 else real).double()


# --- checksums: weighted sums of lanes per chunk, combined on the host ---------------------------------------

_LOW: Final = (1 << 32) - 1
_LANES: Final = {1: torch.uint8, 2: torch.int16}


def _begin_checksums(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, Finish]:
    """Start summing the bits of tensors; of a sparse tensor those of its coalesced values and indices.

    An empty tensor has NaN.
    """
    plan = stack_plan(tensors) if are_dense(tensors) else None
    sums, lengths = _stacked_sums(plan, tensors) if plan is not None else ([], [])
    others = plan.others if plan is not None else range(len(tensors))
    forms: list[tuple[int, int, int]] = []
    for index in others:
        lanes = [_lanes(part) for part in _parts(tensors[index])]
        chunk_sums = [chunk_sum for part in lanes for chunk_sum in _chunk_sums(part)]
        sums += chunk_sums
        forms.append((index, len(chunk_sums), sum(part.numel() for part in lanes)))
    whole = torch.cat(sums) if sums else torch.zeros(0, dtype=torch.int64, device=tensors[0].device)
    numbers = torch.stack([whole >> 32, whole & _LOW]).double().reshape(-1)
    count, owners = len(tensors), plan.owners if plan is not None else np.zeros(0, np.intp)

    def finish(fetched: Vector) -> Vector:
        high, low = fetched.reshape(2, -1).astype(np.int64)
        whole = ((high << 32) + low).view(np.uint64)
        checksums = np.full(count, np.nan)
        checksums[owners] = combine_single(whole[: len(owners)], np.array(lengths, dtype=np.uint64))
        at = len(owners)
        for index, chunks, lanes in forms:
            if lanes:
                checksums[index] = combine([int(chunk_sum) for chunk_sum in whole[at : at + chunks]], lanes)
            at += chunks
        return checksums

    return numbers, finish


def _stacked_sums(plan: StackPlan, tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[int]]:
    """Return the sums of the stacked tensors, and the number of lanes of each."""
    sums, lengths = [], []
    for stack in plan.stacks:
        rows = _lanes(stack.gather(tensors)).view(stack.count, -1)
        sums.append((rows * device_weights(rows.device)[: rows.shape[1]]).sum(1))
        lengths += [rows.shape[1]] * stack.count
    return sums, lengths


def _parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    if tensor.layout is torch.sparse_coo:
        whole = tensor.coalesce()
        return whole._values(), whole._indices()
    return (tensor,)


def _lanes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bits in element order, as integers of at most 32 bits."""
    flat = tensor.resolve_conj().resolve_neg().reshape(-1)
    flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
    if flat.stride(0) != 1:  # including a single element, which counts as contiguous with any stride
        flat = flat.clone(memory_format=torch.contiguous_format)
    return flat.view(_LANES.get(flat.element_size(), torch.int32)) if flat.numel() else flat


def _chunk_sums(lanes: torch.Tensor) -> list[torch.Tensor]:
    factors = device_weights(lanes.device)
    return [(chunk * factors[: chunk.numel()]).sum(0, keepdim=True) for chunk in lanes.split(CHUNK_LANES) if len(chunk)]


def device_weights(device: torch.device) -> torch.Tensor:
    """Return the weights of lanes, copied to a device once."""
    if device not in _WEIGHTS:
        _WEIGHTS[device] = torch.from_numpy(weights()).to(device)
    return _WEIGHTS[device]


_WEIGHTS: Final[dict[Any, torch.Tensor]] = {}
