"""The list of small defects of ``scripts/mutants``: each can be applied, and its tests exist."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]


def load_script() -> ModuleType:
    """Load the script, whose folder is not importable."""
    spec = importlib.util.spec_from_file_location("mutants", PROJECT / "scripts" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules["mutants"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MUTANTS = load_script()
LISTED = MUTANTS.read_list()


@pytest.mark.parametrize("mutant", LISTED, ids=lambda mutant: mutant.id)
def test_a_mutant_can_be_applied_and_its_tests_exist(mutant: Any) -> None:
    source = (MUTANTS.SOURCES / "leadline" / mutant.file).read_text(encoding="utf-8")
    changed = mutant.applied(source)
    assert changed != source
    compile(changed, mutant.file, "exec")
    assert 1 <= len(mutant.tests) <= 3
    for test in mutant.tests:
        file, _, function = test.partition("[")[0].partition("::")
        assert (PROJECT / file).exists(), file
        assert not function or re.search(rf"(def|class) {function}\(", (PROJECT / file).read_text("utf-8")), test


def test_every_package_has_mutants() -> None:
    mutated = {mutant.file.partition("/")[0] for mutant in LISTED}
    packages = {path.parent.name for path in (MUTANTS.SOURCES / "leadline").glob("*/__init__.py")}
    assert packages - mutated == {"testing"}


def test_a_text_that_does_not_occur_once_is_an_error_that_names_the_mutant() -> None:
    mutant = MUTANTS.Mutant("a-defect", "errors.py", old="same", new="other", tests=())
    for source in ("nothing", "same and same"):
        with pytest.raises(MUTANTS.InvalidMutantError, match="a-defect"):
            mutant.applied(source)
