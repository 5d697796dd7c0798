"""Generate the tables of docs/explanation/what-a-verdict-covers.md from ``leadline.records.verdict_scope``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from leadline.records.verdict_scope import FRAMEWORKS, OF_THE_MACHINE, PARTS
from leadline.rules.registry import DEFAULT

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "explanation" / "what-a-verdict-covers.md"
BEGIN: Final = "<!-- begin: made by scripts/scope_page.py -->"
END: Final = "<!-- end -->"


def tables() -> str:
    """Return what is looked at and left out by part, and where."""
    lines = ["| part | looked at | not looked at | default rules |", "|---|---|---|---|"]
    for part in PARTS:
        lines.append(f"| {part.name} | {part.looked_at} | {part.left_out} | {_links(part.rules)} |")
    machine = [name for name in DEFAULT if name in OF_THE_MACHINE]
    about = "waits for data, slow ranks, steps that do not end, memory that grows, GPUs that are throttled"
    left_out = "whether the hardware suits the model; utilization, unless its rules are added"
    lines.append(f"| time and hardware | {about} | {left_out} | {_links(machine)} |")
    lines += ["", f"| part | {' | '.join(FRAMEWORKS)} |", f"|---|{'---|' * len(FRAMEWORKS)}"]
    for part in PARTS:
        cells = " | ".join(part.frameworks.get(framework, "yes") for framework in FRAMEWORKS)
        lines.append(f"| {part.name} | {cells} |")
    return "\n".join(lines)


def _links(rules: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"[{name}](../reference/rules/{name}.md)" for name in rules)


def page(text: str) -> str:
    """Return the page with the tables of the source."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{rest.partition(END)[2]}"


def main() -> None:
    PAGE.write_text(page(PAGE.read_text()))


if __name__ == "__main__":
    main()
