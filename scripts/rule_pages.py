"""Generate docs/reference/rules/ from the docstrings of the rules; run it after changing one or a faulty training."""

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
from leadline.records.loss_facts import FACTS
from leadline.records.recorded_facts import RECORDED_FACTS
from leadline.rules import registry
from leadline.rules.rule import Rule

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "docs" / "reference" / "rules"
WITHOUT_RULE: Final = {"asks.md", "blind.md", "false-alarms.md", "recall-of-checks.md", "recall.md"}
"""The pages that are not made from docstrings."""
TRAININGS: Final = ROOT / "tests" / "process" / "scripts"
_EXAMPLE: Final = (
    "A small training in which the rule fires; with `healthy=True` it does not. The tests run both with the command\n"
    "in the docstring, and compare the step, the message and the tensors with the finding. `faults.py` is in\n"
    "`tests/process/scripts`, and imports the data and the training loop from `toy.py`."
)
_TREE_EXAMPLE: Final = (
    "Samples and settings of a small training of boosted trees in which the rule fires; with `healthy=True` it does\n"
    "not. The tests train both with XGBoost and LightGBM (`tree_faults.py` in `tests/process/scripts`), and let the\n"
    "rule stop the faulty one."
)
_OF_LOSS_CALLS: Final = ("loss_choice", "loss_input")
"""Rules that find what is wrong with a loss call by the facts about it."""
_HEADING: Final = re.compile(r"^(\w[\w ]*):$", re.MULTILINE)
_ARGUMENT: Final = re.compile(r"^(\w+): (.*(?:\n(?!\w+: ).*)*)", re.MULTILINE)


def pages() -> dict[str, str]:
    """Return the content of all pages by file name."""
    names = sorted(registry.BUILT_IN)
    return {"index.md": _index(names), **{f"{name}.md": page(name) for name in names}}


def page(name: str) -> str:
    """Return the page of a rule."""
    rule = registry.find_rule(name)
    summary, sections = read_docstring(rule)
    lines = [f"# {name}", "", _markdown(summary), ""]
    facts = ["Enabled by default." if name in registry.DEFAULT else "Not enabled by default."]
    amazon = [f"`{alias}`" for alias, canonical in registry.AMAZON.items() if canonical == name]
    facts += [f"SageMaker Debugger: {', '.join(amazon)}."] if amazon else []
    required = ",".join(f"{field.name}=…" for field in msgspec.structs.fields(rule) if field.required)
    option = f"{name}:{required}" if required else name
    lines += [" ".join(facts), "", "```", f"leadline run --rule {option} train.py", "```", ""]
    for heading, text in sections.items():
        if heading == "Args":
            lines += ["## Parameters", "", *_parameters(rule, text), ""]
        else:
            lines += [f"## {heading}", "", _markdown(text), ""]
    if name in _OF_LOSS_CALLS:
        lines += ["## Frameworks", "", *_facts_table(), ""]
    example, tree_example = examples("faults_of_*.py").get(name), examples("tree_faults.py").get(name)
    if example or tree_example:
        intro, code = (_EXAMPLE, example) if example else (_TREE_EXAMPLE, tree_example)
        lines += ["## Example", "", intro, "", "```python", code, "```", ""]
    return "\n".join(lines)


def read_docstring(rule: type[Rule]) -> tuple[str, dict[str, str]]:
    """Return the first paragraph, and the text of each section."""
    text = inspect.getdoc(rule) or ""
    parts = _HEADING.split(text)
    sections = {
        heading: textwrap.dedent(body.strip("\n")) for heading, body in zip(parts[1::2], parts[2::2], strict=True)
    }
    return " ".join(parts[0].split()), sections


@lru_cache(maxsize=2)
def examples(files: str) -> Mapping[str, str]:
    """Return the source of the faulty trainings in the tests, by the rule that detects the fault."""
    sources = {}
    for path in sorted(TRAININGS.glob(files)):
        source = path.read_text()
        defined = {
            node.name: node for node in ast.parse(source).body if isinstance(node, (ast.ClassDef, ast.FunctionDef))
        }
        for name, node in defined.items():
            if isinstance(node, ast.FunctionDef) and any(arg.arg == "healthy" for arg in node.args.kwonlyargs):
                used = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)} & set(defined)
                parts = [defined[other] for other in defined if other == name or other in used]
                sources[name] = "\n\n\n".join(ast.get_source_segment(source, part) or "" for part in parts)
    return sources


def _parameters(rule: type[Rule], text: str) -> list[str]:
    descriptions = {match[1]: " ".join(match[2].split()) for match in _ARGUMENT.finditer(text)}
    lines = ["| parameter | default | takes | meaning |", "|---|---|---|---|"]
    kinds = parameter_types(rule)
    for field in msgspec.structs.fields(rule):
        default = "required" if field.required else f"`{_inline(_format_default(field.default))}`"
        takes = describe(kinds[field.name]).replace("|", "\\|")
        lines.append(f"| `{field.name}` | {default} | {takes} | {_inline(descriptions[field.name])} |")
    return lines if len(lines) > 2 else ["None."]


def _facts_table() -> list[str]:
    """Return a table of the facts about loss calls that each adapter records."""
    frameworks = RECORDED_FACTS.keys()
    lines = [
        "What the rule can find follows from the facts that the adapter of a framework records about loss calls, where",
        "a loss shows them (`<loss call>/<fact>` in the collection `checks`); a fact that is not known shows nothing.",
        "",
        f"| fact | {' | '.join(frameworks)} |",
        f"|---|{'---|' * len(frameworks)}",
    ]
    for fact in FACTS:
        cells = ["yes" if fact in recorded else "–" for recorded in RECORDED_FACTS.values()]
        lines.append(f"| `{fact}` | {' | '.join(cells)} |")
    return lines


def _format_default(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return ",".join(map(_format_default, value)) if isinstance(value, tuple) else str(value)


def _markdown(text: str) -> str:
    return text.replace("``", "`")


def _inline(text: str) -> str:
    return _markdown(text).replace("|", "\\|")


def _index(names: list[str]) -> str:
    lines = [
        "# Rules",
        "",
        "Select a rule with `--rule NAME:parameter=value,…`. `leadline rules NAME` prints the content of these pages;",
        "`leadline rules --new my_rule.py` creates a custom rule.",
        "",
        "| rule | evaluated | fires when |",
        "|---|---|---|",
    ]
    for name in names:
        summary, _ = read_docstring(registry.find_rule(name))
        mark = "by default" if name in registry.DEFAULT else "on request"
        condition = summary.removeprefix("Fires when ").replace("Never fires: ", "never; ").rstrip(".")
        lines.append(f"| [{name}]({name}.md) | {mark} | {_inline(condition)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Write the pages, and remove those of rules that no longer exist."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    texts = pages()
    for obsolete in {path.name for path in FOLDER.glob("*.md")} - set(texts) - WITHOUT_RULE:
        (FOLDER / obsolete).unlink()
    for name, text in texts.items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
