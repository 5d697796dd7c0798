"""When the norm of all gradients is captured, in every framework."""

from __future__ import annotations

import pytest

from leadline.config.capture import parse_capture
from leadline.frameworks.kit.gradient_norms import norm_info, wants_norm
from leadline.records.plan import CaptureItem


@pytest.mark.parametrize(
    ("option", "first", "second"),
    [
        ("gradient_norms:every=1", True, True),
        ("gradient_norms:regex=^nothing$", False, False),
        ("gradient_norms:regex=^Adam/", False, True),
        ("mine:regex=gradient_norm", True, True),
        ("mine:regex=^gradient_norm", True, False),
        ("mine:regex=weight", False, False),
        ("mine:regex=gradient_norm,statistics=l2", False, False),
        ("all:every=1", True, True),
        ("all:every=1,statistics=mean", False, False),
        ("gradients:every=1", True, True),
        ("gradients:every=1,regex=head", False, False),
        ("gradients:every=1,statistics=mean", False, False),
        ("weights:every=1", False, False),
    ],
)
def test_an_option_selects_the_norms_of_the_first_and_the_second_optimizer(
    option: str, first: bool, second: bool
) -> None:
    items = [parse_capture(option)]
    assert wants_norm(items, "") is first
    assert wants_norm(items, "Adam/") is second


def test_a_rule_that_needs_all_does_not_cause_norms() -> None:
    assert not wants_norm([CaptureItem("all", statistics=("value",), source="rule:overflow")], "")


def test_of_an_optimizer_that_is_not_known_yet_any_name_may_be_selected() -> None:
    assert wants_norm([parse_capture("mine:regex=^Adam/gradient_norm")], None)
    assert not wants_norm([parse_capture("weights:every=1")], None)


def test_the_norm_belongs_to_the_custom_collection_that_selects_it() -> None:
    items = [parse_capture("mine:regex=gradient_norm"), parse_capture("other:regex=weight")]
    assert norm_info("gradient_norm", items).collections == ("gradient_norms", "mine")
