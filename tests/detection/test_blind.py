"""The tables of the blind sets are of their programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from blind import SETS, BlindSet, replaced

from leadline.rules import registry


@pytest.mark.parametrize("blind", SETS.values(), ids=SETS.keys())
def test_every_program_has_a_row_and_a_twin(blind: BlindSet) -> None:
    assert set(blind.programs) == {path.stem for path in blind.folder.glob("*.py")}
    for name in blind.programs:
        mistake, twin = (program(blind.folder / f"{name}.py").source for program in blind.kinds.values())
        assert mistake != twin
        assert "# mistake" not in twin
        compile(mistake, name, "exec")
        compile(twin, name, "exec")


@pytest.mark.parametrize("blind", SETS.values(), ids=SETS.keys())
def test_what_names_a_mistake_is_a_rule(blind: BlindSet) -> None:
    assert {rule for program in blind.programs.values() for rule in program["named_by"]} <= set(registry.BUILT_IN)
    outcomes = {program["at_first"] for program in blind.programs.values()}
    assert outcomes <= {"named", "a symptom", "something wrong", "nothing"}


def test_every_set_is_a_folder() -> None:
    folders = {path.parent.name for path in Path(__file__).parent.glob("blind*/programs.toml")}
    assert set(SETS) == folders


@pytest.mark.parametrize("written", SETS)
def test_a_section_is_replaced_and_the_others_stay(written: str) -> None:
    page = "".join(f"{blind.title}\nof {name}\n" for name, blind in SETS.items())
    blind = SETS[written]
    assert replaced(page, blind, f"{blind.title}\nfurther\n") == page.replace(f"of {written}\n", "further\n")


def test_a_section_that_the_page_lacks_is_appended() -> None:
    *others, last = SETS.values()
    page = "".join(f"{blind.title}\ntext\n" for blind in others)
    assert replaced(page, last, f"{last.title}\nnew\n") == f"{page}{last.title}\nnew\n"
