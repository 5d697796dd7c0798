"""The block of a distributed tensor that this process has."""

from __future__ import annotations

import torch

from leadline.frameworks.torch.kernels.elements import local
from leadline.records.series import Shard


def shard_of(tensor: torch.Tensor) -> Shard | None:
    """Return the block of a DTensor that is local; None: the whole tensor, or no block that is known exactly.

    Each dimension of the mesh that shards splits what the ones before it have left, as ``torch.chunk`` does.
    """
    mesh = getattr(tensor, "device_mesh", None)
    coordinates = mesh.get_coordinate() if mesh is not None else None
    if mesh is None or coordinates is None:
        return None
    offset, shape = [0] * tensor.dim(), list(tensor.shape)
    for axis, placement in enumerate(tensor.placements):
        if placement.is_replicate():
            continue
        if type(placement).__name__ != "Shard":  # partial sums, and shards in an order of their own
            return None
        length = shape[placement.dim]
        chunk = -(-length // mesh.size(axis))
        start = min(coordinates[axis] * chunk, length)
        offset[placement.dim] += start
        shape[placement.dim] = min(chunk, length - start)
    is_exact = tuple(shape) == tuple(local(tensor.detach()).shape)
    return Shard(tuple(offset), tuple(shape)) if is_exact and shape != list(tensor.shape) else None
