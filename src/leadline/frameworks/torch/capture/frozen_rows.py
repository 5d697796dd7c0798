"""Tokens whose rows in a frozen embedding are equal, or new."""

from __future__ import annotations

from typing import Any, Final

import torch

from leadline.frameworks.torch.capture.resized_embeddings import first_new_row

_LATEST: Final = 256
"""Rows at the end of the vocabulary that are compared: new tokens, and those that a base model has reserved."""
_CHUNK: Final = 16


def count_equal_rows(model: Any, tokens: torch.Tensor) -> torch.Tensor | None:
    """Return how many tokens of a batch have the same row as another one, among the last of a frozen embedding.

    Rows of zeros are left out, as padding has.

    Args:
        model: A model of Transformers, without wrappers of PyTorch.
        tokens: Any shape.

    Returns:
        A whole number, ``()``; None: the embedding is trained, is adapted, or is no ``torch.nn.Embedding``.
    """
    weight = _frozen_rows(model, tokens)
    if weight is None:
        return None
    first = max(len(weight) - _LATEST, 0)
    rows = weight[first:]
    places = torch.arange(len(rows), device=tokens.device)
    late = torch.where(tokens >= first, tokens - first, len(rows)).reshape(-1)
    is_used = torch.zeros(len(rows) + 1, dtype=torch.bool, device=tokens.device).index_fill_(0, late, True)[:-1]
    is_used &= (rows != 0).any(1)
    count = torch.zeros((), dtype=torch.int64, device=tokens.device)
    for at in range(0, len(rows), _CHUNK):
        part = slice(at, at + _CHUNK)
        are_equal = (rows[part, None] == rows[None]).all(2) & is_used & (places[part, None] != places)
        count += (are_equal.any(1) & is_used[part]).sum()
    return count


def count_new_rows(model: Any, tokens: torch.Tensor) -> torch.Tensor | None:
    """Return how many tokens of a batch have a row that was added to a frozen embedding in this process.

    Args:
        model: A model of Transformers, without wrappers of PyTorch.
        tokens: Any shape.

    Returns:
        A whole number, ``()``; None: the embedding is trained, is adapted, was not enlarged, or is no
        ``torch.nn.Embedding``.
    """
    weight = _frozen_rows(model, tokens)
    first = first_new_row(model.get_input_embeddings()) if weight is not None else None
    if weight is None or first is None:
        return None
    new = torch.arange(first, len(weight), device=tokens.device)
    return (tokens.reshape(-1, 1) == new).any(0).sum()


def _frozen_rows(model: Any, tokens: torch.Tensor) -> torch.Tensor | None:
    """Return the weight of the frozen embedding that tokens are given to; None: it is another one."""
    find = getattr(model, "get_input_embeddings", None)
    embedding: Any = find() if callable(find) else None
    if type(embedding) is not torch.nn.Embedding or embedding.weight.requires_grad:
        return None
    weight = embedding.weight.detach()
    is_readable = type(weight) is torch.Tensor and not weight.is_meta and weight.device == tokens.device
    return weight if is_readable else None
