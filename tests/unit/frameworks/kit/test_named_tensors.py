"""Names, collections and selections of tensors, the same in every framework."""

from __future__ import annotations

import pytest

from leadline.frameworks.capture_requests import request_with_norm
from leadline.frameworks.kit.named_tensor import GRADIENTS, NamedTensor, may_select, parameter_collections
from leadline.records.plan import CaptureItem


@pytest.mark.parametrize(
    ("name", "collection"),
    [
        ("network/dense/bias", "biases"),
        ("dense0_bias", "biases"),
        ("batchnorm0_beta", "biases"),
        ("linear/b", "biases"),
        ("linear/w_b", "weights"),
        ("network/dense/kernel", "weights"),
        ("bias/kernel", "weights"),
    ],
)
def test_a_parameter_is_a_bias_by_the_end_of_its_name(name: str, collection: str) -> None:
    assert parameter_collections(name) == (collection,)


def test_a_tensor_belongs_to_the_custom_collections_that_select_it() -> None:
    items = [CaptureItem(None, "^first", custom="mine"), CaptureItem(None, "^last", custom="other")]
    info = NamedTensor("first/kernel", ("weights",), None).info(items, (None, 3), "float32")
    assert (info.collections, info.shape) == (("weights", "mine"), (0, 3))


@pytest.mark.parametrize(
    ("item", "is_selecting"),
    [
        (CaptureItem("gradients"), True),
        (CaptureItem("weights"), False),
        (CaptureItem(None, "x"), True),
        (CaptureItem("all", source="option"), True),
        (CaptureItem("all", source="rule:overflow"), False),
    ],
)
def test_what_may_select_gradients(item: CaptureItem, is_selecting: bool) -> None:
    assert may_select([item], *GRADIENTS) is is_selecting


def test_the_norm_needs_the_l2_of_gradients_only() -> None:
    items = [CaptureItem("gradient_norms", statistics=("value",)), CaptureItem("weights", statistics=("mean",))]
    gradient, weight = NamedTensor("gradient/w", GRADIENTS, None), NamedTensor("w", ("weights",), None)
    assert request_with_norm(items, gradient, "").on_device == ("l2",)
    assert request_with_norm(items, weight, "").on_device == ("mean",)
    assert request_with_norm(items[1:], gradient, "").is_empty
