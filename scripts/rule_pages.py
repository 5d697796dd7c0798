"""Writes docs/rules/ from the rules' docstrings; run it after changing a rule or one of the trainings with faults."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from leadline.config.parameters import describe, parameter_types
from leadline.rules import registry
from leadline.rules.rule import Rule

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "docs" / "rules"
MEASURED: Final = "false-alarms.md"
"""The page that tests/process/false_alarms.py writes."""
TRAININGS: Final = ROOT / "tests" / "process" / "scripts"
_TWIN: Final = (
    "A small training in which it fires; with `healthy=True` it is silent. The tests run both with the command that\n"
    "stands in front (`faults.py` in `tests/process/scripts`; data and loop are in `toy.py` beside it), and hold the\n"
    "step, the message and the tensors against what it finds while the training runs."
)
_TWIN_OF_TREES: Final = (
    "A small training of boosted trees, samples and settings, in which it fires; with `healthy=True` it is silent.\n"
    "The tests train both by XGBoost and by LightGBM (`tree_faults.py` in `tests/process/scripts`), and let the rule\n"
    "stop the one that is faulty."
)
_HEADING: Final = re.compile(r"^(\w[\w ]*):$", re.MULTILINE)
_ARGUMENT: Final = re.compile(r"^(\w+): (.*(?:\n(?!\w+: ).*)*)", re.MULTILINE)


def pages() -> dict[str, str]:
    """Every page as it should be, by its file's name."""
    names = sorted(registry.BUILT_IN)
    return {"index.md": _index(names), **{f"{name}.md": page(name) for name in names}}


def page(name: str) -> str:
    """One rule's page."""
    rule = registry.find_rule(name)
    summary, sections = read_docstring(rule)
    lines = [f"# {name}", "", summary, ""]
    facts = ["A default rule." if name in registry.DEFAULT else "Not a default rule: ask for it."]
    amazon = [f"`{each}`" for each, ours in registry.AMAZON.items() if ours == name]
    facts += [f"Also found as {', '.join(amazon)}."] if amazon else []
    lines += [" ".join(facts), "", "```", f"leadline run --rule {name} train.py", "```", ""]
    for heading, text in sections.items():
        if heading == "Args":
            lines += ["## Parameters", "", *_parameters(rule, text), ""]
        else:
            lines += [f"## {heading}", "", _markdown(text), ""]
    twin, of_trees = twins("faults_of_*.py").get(name), twins("tree_faults.py").get(name)
    if twin or of_trees:
        told = (_TWIN, twin) if twin else (_TWIN_OF_TREES, of_trees)
        lines += ["## A fault and its healthy twin", "", told[0], "", "```python", told[1], "```", ""]
    return "\n".join(lines)


def read_docstring(rule: type[Rule]) -> tuple[str, dict[str, str]]:
    """The first paragraph, and the texts under the headings."""
    text = inspect.getdoc(rule) or ""
    parts = _HEADING.split(text)
    sections = {
        heading: textwrap.dedent(body.strip("\n")) for heading, body in zip(parts[1::2], parts[2::2], strict=True)
    }
    return " ".join(parts[0].split()), sections


@lru_cache(maxsize=2)
def twins(files: str) -> Mapping[str, str]:
    """The trainings with a fault planted, as they stand in the tests, by the rule that catches it."""
    found = {}
    for path in sorted(TRAININGS.glob(files)):
        source = path.read_text()
        defined = {
            each.name: each for each in ast.parse(source).body if isinstance(each, (ast.ClassDef, ast.FunctionDef))
        }
        for name, node in defined.items():
            if isinstance(node, ast.FunctionDef) and any(each.arg == "healthy" for each in node.args.kwonlyargs):
                used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} & set(defined)
                parts = [defined[each] for each in defined if each == name or each in used]
                found[name] = "\n\n\n".join(ast.get_source_segment(source, each) or "" for each in parts)
    return found


def _parameters(rule: type[Rule], text: str) -> list[str]:
    said = {match[1]: " ".join(match[2].split()) for match in _ARGUMENT.finditer(text)}
    lines = ["| parameter | default | takes | |", "|---|---|---|---|"]
    kinds = parameter_types(rule)
    for field in msgspec.structs.fields(rule):
        default = "required" if field.required else f"`{_inline(_spoken(field.default))}`"
        takes = describe(kinds[field.name]).replace("|", "\\|")
        lines.append(f"| `{field.name}` | {default} | {takes} | {_inline(said[field.name])} |")
    return lines if len(lines) > 2 else ["None."]


def _spoken(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return ",".join(map(_spoken, value)) if isinstance(value, tuple) else str(value)


def _markdown(text: str) -> str:
    return text.replace("``", "`")


def _inline(text: str) -> str:
    return _markdown(text).replace("|", "\\|")


def _index(names: list[str]) -> str:
    lines = [
        "# Rules",
        "",
        "Asked for with `--rule NAME:parameter=value,…`; `leadline rules NAME` says the same as these pages. A rule of",
        "your own: `leadline rules --new my_rule.py`.",
        "",
        "| rule | | fires when |",
        "|---|---|---|",
    ]
    for name in names:
        summary, _ = read_docstring(registry.find_rule(name))
        mark = "default" if name in registry.DEFAULT else ""
        lines.append(f"| [{name}]({name}.md) | {mark} | {_inline(summary.removeprefix('Fires when ').rstrip('.'))} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Write the pages, and take away those of rules that are no more."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = pages()
    for stray in {path.name for path in FOLDER.glob("*.md")} - set(made) - {MEASURED}:
        (FOLDER / stray).unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
