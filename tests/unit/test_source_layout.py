"""Source conventions that no linter checks, and the table of processes in docs/explanation/architecture.md."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "src" / "leadline"
SOURCES = sorted(PACKAGE.rglob("*.py"))
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path for path in SOURCES
}
"""The files by the names of their modules."""
MAX_LINES = 400
SAME_NAME_ON_PURPOSE = {"Collection", "Hook", "LeadlineCallback", "Rule", "Tensor", "TrainingJob"}
"""``leadline.torch.Hook`` is ``leadline.Hook`` for a PyTorch model; ``leadline.compat`` has the names of smdebug; each
trainer has its callback."""


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


def test_every_module_is_in_one_layer_of_the_contract() -> None:
    layers = layers_of_contract()
    split = {
        ".".join(parts[:count]) for parts in (name.split(".") for name in layers) for count in range(1, len(parts))
    }
    outside = [module for module in MODULES if count_layers(module, layers) != 1 and module not in split]
    assert outside == []
    assert [
        module for module in split - {"leadline"} if imports_of(module)
    ] == []  # a package of several layers has no code


def layers_of_contract() -> list[str]:
    """Return the names in all layers; those in parentheses need not exist."""
    (contract,) = (
        contract
        for contract in tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    return [name.strip(" ()") for layer in contract["layers"] for name in re.split("[|:]", layer)]


def count_layers(module: str, layers: list[str]) -> int:
    return sum(module == name or module.startswith(f"{name}.") for name in layers)


def test_a_module_outside_of_the_layers_and_one_in_two_of_them_are_seen() -> None:
    assert [count_layers(module, ["a.b", "a.b.c", "a.d"]) for module in ("a.bc", "a.b.c", "a.d.e")] == [0, 2, 1]


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports in functions and for types included: such modules can only be understood together."""
    assert circle_in({module: imports_of(module) for module in MODULES}) == []


def test_no_packages_import_each_other_in_a_circle() -> None:
    """The parts of a package, such as a script that is on the path of every training, count as the whole."""
    packages = defaultdict[str, set[str]](set)
    for module in MODULES:
        packages[package_of(module)] |= {package_of(name) for name in imports_of(module)} - {package_of(module)}
    assert circle_in(packages) == []


def package_of(module: str) -> str:
    """Return the package below ``leadline`` that a module belongs to; the module itself if it is in none."""
    return ".".join(module.split(".")[:2])


def imports_of(module: str) -> set[str]:
    """Return the modules of Leadline that a module imports anywhere."""
    return {name for name in imported(ast.parse(MODULES[module].read_text())) if name != module}


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else node.module for name in names)


def circle_in(imports: Mapping[str, set[str]]) -> list[str]:
    """Return modules of which each imports the one before, the first at the end again; empty if there are none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_a_circle_is_found() -> None:
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"d"}}) == []
    assert set(circle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


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
