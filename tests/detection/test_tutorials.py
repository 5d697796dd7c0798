"""The tutorials: the script of each has the bug that the page describes, and the fix on the page removes it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from fault_examples import spoken
from programs import Program, run

ROOT = Path(__file__).parents[2]
SCRIPTS = {path.stem: path for path in sorted((ROOT / "examples" / "tutorials").glob("*.py"))}
PAGES = ROOT / "docs" / "tutorials"
_FINDING = re.compile(r"^leadline  step \d+  (\w+): (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Tutorial:
    """A page and its script."""

    program: Program
    rule: str
    message: str
    fixed: Program


def read_tutorial(path: Path) -> Tutorial:
    """Read the first finding and the fix from the page of a script; the fix changes lines that occur once."""
    page = (PAGES / f"{path.stem.replace('_', '-')}.md").read_text()
    assert f'--8<-- "tutorials/{path.name}"' in page
    finding = _FINDING.search(page)
    assert finding is not None
    rules = tuple(dict.fromkeys(re.findall(r"leadline run .*--rule (\w+)", page)))
    program = Program(path.stem, str(path), path.read_text(), rules=rules)
    source = program.source
    (fix,) = re.findall(r"^```diff\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for hunk in fix.split("\n\n"):
        lines = [(line[:1], line[1:]) for line in hunk.strip("\n").splitlines()]
        before = "\n".join(text for mark, text in lines if mark != "+")
        assert source.count(before) == 1, before
        source = source.replace(before, "\n".join(text for mark, text in lines if mark != "-"))
    return Tutorial(program, finding[1], finding[2], replace(program, name=f"{path.stem}-fixed", source=source))


def test_every_tutorial_has_a_script() -> None:
    pages = {path.stem.replace("-", "_") for path in PAGES.glob("*.md")} - {"index"}
    assert pages == SCRIPTS.keys()
    index = (PAGES / "index.md").read_text()
    assert all(f"]({path.name})" in index for path in PAGES.glob("*.md") if path.stem != "index")


@pytest.mark.slow
def test_the_bug_is_found_and_the_fix_is_silent() -> None:
    tutorials = [read_tutorial(path) for path in SCRIPTS.values()]
    results = run([program for tutorial in tutorials for program in (tutorial.program, tutorial.fixed)], processes=1)
    assert {name: result.error for name, result in results.items() if result.error} == {}
    for tutorial in tutorials:
        found = results[tutorial.program.name].rules[tutorial.rule].findings
        assert spoken(tutorial.message) in {spoken(finding.partition(": ")[2]) for finding in found}, tutorial.rule
        assert results[tutorial.fixed.name].fired == {}
