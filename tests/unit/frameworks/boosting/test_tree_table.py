"""The table of a round's trees."""

from __future__ import annotations

import numpy as np

from leadline.frameworks.boosting.booster import TreeTable


def test_a_row_for_each_node_ordered_by_tree_and_node() -> None:
    table = TreeTable(("age", "height"))
    table.leaf(1, 0, 0, value=0.5, cover=7.0)
    table.split(0, 0, 0, feature="height", condition=1.5, children=(1, 2, 2), gain=3.0, cover=10.0)
    table.leaf(0, 2, 1, value=-0.25, cover=None)
    table.split(0, 1, 1, feature="unknown", condition=None, children=(3, 4, 3), gain=None, cover=4.0)
    columns = {name: column.tolist() for name, column in table.columns().items()}
    assert (columns["Tree"], columns["Node"], columns["Depth"]) == ([0, 0, 0, 1], [0, 1, 2, 0], [0, 1, 1, 0])
    assert columns["Feature"] == [1, -1, -1, -1]
    assert columns["ID"] == [0, 1, 2, 1 << 32]
    assert (columns["Yes"], columns["No"], columns["Missing"]) == ([1, 3, -1, -1], [2, 4, -1, -1], [2, 3, -1, -1])
    np.testing.assert_array_equal(columns["Split"], [1.5, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(columns["Gain"], [3.0, np.nan, -0.25, 0.5])
    np.testing.assert_array_equal(columns["Cover"], [10.0, 4.0, np.nan, 7.0])


def test_a_table_without_trees_has_no_columns() -> None:
    assert TreeTable(("age",)).columns() == {}


def test_categories_of_a_split_are_one_number() -> None:
    table = TreeTable(("kind",), has_categories=True)
    for node, categories in enumerate(([0, 3], [52], [53], [])):
        table.split(
            0, node, 0, feature="kind", condition=None, children=(8, 9, 9), gain=1.0, cover=1.0, categories=categories
        )
    table.leaf(0, 8, 1, value=0.5, cover=1.0)
    np.testing.assert_array_equal(table.columns()["Category"], [9.0, 2.0**52, np.inf, np.nan, np.nan])
