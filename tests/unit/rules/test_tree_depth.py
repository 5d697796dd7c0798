"""tree_depth: depths if known, else node ids."""

from __future__ import annotations

import math

import pytest
from tree_scenarios import trees

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.trees.tree_depth import TreeDepth
from leadline.testing.windows import verdicts


def judge(depth: float | None = None, node: float | None = None, **parameters: object) -> Verdict:
    ((_, verdict),) = verdicts(TreeDepth(**parameters), [trees(3, depth=depth, node=node)])
    return verdict


def test_fires_above_its_bound_and_not_on_it() -> None:
    assert judge(depth=4) == Clear()
    fired = judge(depth=5)
    assert isinstance(fired, Fired)
    assert fired.message == "a tree of this round has a depth of 5, more than 4"
    assert fired.tensors == ("trees/Depth",)


@pytest.mark.parametrize(("node", "depth"), [(2, 1), (6, 2), (30, 4), (31, 5), (62, 5), (126, 6)])
def test_the_depth_of_a_full_tree_follows_from_its_largest_node_id(node: int, depth: int) -> None:
    fired_limits = [
        limit
        for limit in range(1, 9)
        if isinstance(verdicts(TreeDepth(depth=limit), [trees(0, node=node)])[0][1], Fired)
    ]
    assert len(fired_limits) == depth - 1


def test_the_message_says_at_least_for_node_ids() -> None:
    fired = judge(node=62)
    assert fired.message == "a tree of this round has a depth of at least 5, more than 4"
    assert fired.evidence["is_exact"] is False


def test_depths_are_preferred_to_node_ids() -> None:
    assert judge(depth=4, node=1e6) == Clear()
    assert judge(depth=9, node=2).evidence["depth"] == 9


def test_nan_and_infinity_are_not_evaluated() -> None:
    assert judge(depth=math.nan) == Undecided("no tree was captured at this step")
    assert judge(node=math.inf) == Undecided("no tree was captured at this step")
    assert isinstance(judge(depth=math.nan, node=62), Fired)


def test_clear_is_undecided_with_incomplete_data() -> None:
    assert isinstance(verdicts(TreeDepth(), [trees(0, depth=1)], is_incomplete=True)[0][1], Undecided)


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="depth must be an integer >= 1"):
        TreeDepth(depth=0)
