"""Roles of logged metrics: one for each name, as the documentation lists them."""

from __future__ import annotations

import re
from pathlib import Path

from leadline.records.metric_roles import KNOWN, LIBRARIES, ROLES, role_collection, role_error, role_in

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


def test_a_name_has_the_same_role_in_all_libraries() -> None:
    roles = {(name, role) for names in LIBRARIES.values() for name, role in names.items()}
    assert len(roles) == len(KNOWN)
    assert set(KNOWN.values()) == set(ROLES)


def test_the_documentation_lists_every_name() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", PAGE.read_text().partition("## Roles")[2], re.MULTILINE)
    listed = {role: (what, sorted(re.findall(r"`([^`]+)`", names))) for role, what, names in rows}
    expected = {
        role: (what, sorted(name for names in LIBRARIES.values() for name, each in names.items() if each == role))
        for role, what in ROLES.items()
    }
    assert listed == expected


def test_a_role_is_marked_by_a_collection() -> None:
    assert role_in(("metrics", role_collection("entropy"))) == "entropy"
    assert role_in(("metrics", "printed")) == ""


def test_an_unknown_role_is_told_with_the_nearest() -> None:
    assert role_error("reward") is None
    assert role_error("rewrd") == "no role named 'rewrd'; did you mean 'reward'?"
    assert "roles: reward, reward_spread" in str(role_error("x"))
