"""What capture items request of a tensor, by its name and collections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from leadline.frameworks.kit.named_tensor import ON_UPDATE
from leadline.frameworks.torch.kernels.array_statistics import split_arrays
from leadline.records.plan import CaptureItem


@dataclass(frozen=True, slots=True)
class KernelRequest:
    """What some capture items request of a tensor, by the kernels that compute it."""

    statistics: frozenset[str]
    """All statistics, including ``update_ratio`` and ``confusion``, which are computed from more than one tensor."""
    numbers: tuple[str, ...]
    """Scalar statistics of one tensor, sorted."""
    arrays: tuple[str, ...]
    """Array statistics of one tensor, sorted."""
    is_raw: bool
    custom: tuple[str, ...]
    """The user-defined collections to which the tensor is added."""


class Requests:
    """Finds the request of each tensor; tensors that the same items select share one."""

    def __init__(
        self, items: Sequence[CaptureItem], is_used: Callable[[CaptureItem], bool] = lambda item: True
    ) -> None:
        """
        Args:
            is_used: Whether an item may request something; of others only the user-defined collection counts.
                None: all may.
        """
        self._items, self._is_used = items, is_used
        self._candidates: dict[tuple[str, ...], tuple[CaptureItem, ...]] = {}
        self._requests: dict[tuple[int, ...], KernelRequest] = {}

    def of(self, name: str, collections: tuple[str, ...]) -> KernelRequest:
        """Return the request of a tensor."""
        members = frozenset(collections)
        candidates = self._candidates.get(collections)
        if candidates is None:
            candidates = self._candidates[collections] = tuple(
                item for item in self._items if item.collection in (None, "all") or item.collection in members
            )
        chosen = [
            item for item in candidates if (item.regex is None and item.modules is None) or item.selects(name, members)
        ]
        key = tuple(map(id, chosen))
        request = self._requests.get(key)
        if request is None:
            request = self._requests[key] = self._request(chosen)
        return request

    def _request(self, chosen: Sequence[CaptureItem]) -> KernelRequest:
        used = list(chosen if self._is_used is None else filter(self._is_used, chosen))
        statistics = frozenset(statistic for item in used for statistic in item.statistics)
        numbers, arrays = split_arrays(statistics - {ON_UPDATE})
        custom = tuple(dict.fromkeys(item.custom for item in chosen if item.custom))
        return KernelRequest(statistics, numbers, arrays, any(item.raw for item in used), custom)
