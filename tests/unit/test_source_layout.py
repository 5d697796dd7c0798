"""Source conventions that no linter checks, and the table of processes in docs/explanation/architecture.md."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "src" / "leadline"
SOURCES = sorted(PACKAGE.rglob("*.py"))
MAX_LINES = 400
SAME_NAME_ON_PURPOSE = {"Collection", "Hook", "Rule", "Tensor", "TrainingJob"}
"""``leadline.torch.Hook`` is ``leadline.Hook`` for a PyTorch model; ``leadline.compat`` has the names of smdebug."""


def test_no_source_file_is_longer_than_400_lines() -> None:
    lengths = {str(path.relative_to(PACKAGE)): path.read_text().count("\n") for path in SOURCES}
    assert {path: lines for path, lines in lengths.items() if lines > MAX_LINES} == {}


def test_no_two_public_classes_have_one_name() -> None:
    modules = defaultdict(list)
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(str(path.relative_to(PACKAGE)))
    duplicates = {name: paths for name, paths in modules.items() if len(paths) > 1 and name not in SAME_NAME_ON_PURPOSE}
    assert duplicates == {}


def test_nothing_overrules_the_formatter() -> None:
    override = "fmt" + ": "
    folders = ("src", "tests", "benchmarks", "scripts", "examples")
    python_files = [path for folder in folders for path in (PROJECT / folder).rglob("*.py")]
    assert [path for path in python_files if re.search(rf"# {override}(skip|off)", path.read_text())] == []


def test_the_architecture_page_lists_every_process_that_is_started() -> None:
    assert documented_processes() == started_processes()


def documented_processes() -> set[tuple[str, str]]:
    """Return (starting module, started module) of all rows of the table under "Processes"."""
    page = (PROJECT / "docs" / "explanation" / "architecture.md").read_text()
    section = page.split("## Processes", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("| ").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {
        (parent, module)
        for parents, _, modules in rows
        for parent in re.findall(r"`([\w.]+)`", parents)
        for module in re.findall(r"`([\w.]+)`", modules)
    }


def started_processes() -> set[tuple[str, str]]:
    """Return the same from the source: the calls of ``own_command``."""
    started = set()
    for path in SOURCES:
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="own_command"), args=[ast.Constant(value=str(name)), *_]):
                    started.add((module, name))
    return started


def test_every_process_of_ours_is_started_with_own_command() -> None:
    """It is the one place that keeps the user's files out of our processes."""
    pattern = re.compile(r"""sys\.executable,\s*(\*\w+,\s*)*["']-m["'],\s*["']leadline""")
    assert [str(path) for path in SOURCES if pattern.search(path.read_text())] == []


def test_no_two_test_files_have_one_name() -> None:
    """pytest imports them by that name."""
    names = Counter(path.name for path in (PROJECT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
