"""The tables of the blind sets are of their programs."""

from __future__ import annotations

import pytest
from blind import FIRST, SECOND, BlindSet

from leadline.rules import registry


@pytest.mark.parametrize("blind", [FIRST, SECOND], ids=lambda blind: str(blind.folder.name))
def test_every_program_has_a_row_and_a_twin(blind: BlindSet) -> None:
    assert set(blind.programs) == {path.stem for path in blind.folder.glob("*.py")}
    for name in blind.programs:
        mistake, twin = (program(blind.folder / f"{name}.py").source for program in blind.kinds.values())
        assert mistake != twin
        assert "# mistake" not in twin
        compile(mistake, name, "exec")
        compile(twin, name, "exec")


@pytest.mark.parametrize("blind", [FIRST, SECOND], ids=lambda blind: str(blind.folder.name))
def test_what_names_a_mistake_is_a_rule(blind: BlindSet) -> None:
    assert {rule for program in blind.programs.values() for rule in program["named_by"]} <= set(registry.BUILT_IN)
    outcomes = {program["at_first"] for program in blind.programs.values()}
    assert outcomes == {"named", "a symptom", "something wrong", "nothing"}
