"""The table of the blind set is of its programs."""

from __future__ import annotations

from blind import BLIND, KINDS, PROGRAMS

from leadline.rules import registry


def test_every_program_has_a_row_and_a_twin() -> None:
    assert set(PROGRAMS) == {path.stem for path in BLIND.glob("*.py")}
    for name in PROGRAMS:
        mistake, twin = (program(BLIND / f"{name}.py").source for program in KINDS.values())
        assert mistake != twin
        assert "# mistake" not in twin
        compile(mistake, name, "exec")
        compile(twin, name, "exec")


def test_what_names_a_mistake_is_a_rule() -> None:
    assert {rule for program in PROGRAMS.values() for rule in program["named_by"]} <= set(registry.BUILT_IN)
    outcomes = {program["at_first"] for program in PROGRAMS.values()}
    assert outcomes == {"named", "a symptom", "something wrong", "nothing"}
