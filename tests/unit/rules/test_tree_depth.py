"""tree_depth: by depths where they are known, else by node ids."""

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
def test_a_full_tree_is_as_deep_as_its_largest_node_id_says(node: int, depth: int) -> None:
    found = [
        each for each in range(1, 9) if isinstance(verdicts(TreeDepth(depth=each), [trees(0, node=node)])[0][1], Fired)
    ]
    assert len(found) == depth - 1


def test_by_node_ids_it_says_at_least() -> None:
    fired = judge(node=62)
    assert fired.message == "a tree of this round has a depth of at least 5, more than 4"
    assert fired.evidence["is_exact"] is False


def test_depths_go_before_node_ids() -> None:
    assert judge(depth=4, node=1e6) == Clear()
    assert judge(depth=9, node=2).evidence["depth"] == 9


def test_what_is_no_number_is_not_judged() -> None:
    assert judge(depth=math.nan) == Undecided("no tree was captured at this step")
    assert judge(node=math.inf) == Undecided("no tree was captured at this step")
    assert isinstance(judge(depth=math.nan, node=62), Fired)


def test_where_capture_was_thinned_clear_is_undecided() -> None:
    assert isinstance(verdicts(TreeDepth(), [trees(0, depth=1)], thinned=True)[0][1], Undecided)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="depth must be a whole number >= 1"):
        TreeDepth(depth=0)
