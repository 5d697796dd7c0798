"""What capture items request of a tensor, alone and together."""

from __future__ import annotations

from itertools import combinations

from leadline.frameworks.capture_requests import request_of
from leadline.records.plan import CaptureItem

ITEMS = (
    CaptureItem("layers", statistics=("mean", "std")),
    CaptureItem("layers", statistics=("unit_activity",)),
    CaptureItem("layers", statistics=("histogram", "min")),
    CaptureItem("layers", raw=True),
    CaptureItem("layers", statistics=("update_ratio",)),
)


def test_what_is_computed_for_items_together_serves_each_of_them() -> None:
    """A tensor is captured once for all items of a step, and then kept for those that are due."""
    for count in range(1, len(ITEMS) + 1):
        for together in combinations(ITEMS, count):
            computed = request_of(together, "relu_output_0", ("layers",))
            for kept in (combination for size in range(1, count) for combination in combinations(together, size)):
                request = request_of(kept, "relu_output_0", ("layers",))
                assert set(request.on_device) <= set(computed.on_device), (kept, together)
                assert set(request.on_host) <= set(computed.on_host)


def test_a_row_carries_the_collections_of_a_tensor_that_is_only_copied() -> None:
    assert request_of(ITEMS[1:2], "relu_output_0", ("layers",)).on_device == ("max",)
    assert request_of(ITEMS[:1], "relu_output_0", ("layers",)).on_device == ("mean", "std")
    assert request_of(ITEMS[4:], "relu_output_0", ("layers",)).is_empty is False
