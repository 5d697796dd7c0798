"""Generate docs/reference/actions.md from the docstrings of the actions; run after changing an action."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path
from typing import Any, Final

import msgspec

from leadline.actions import registry
from leadline.actions.action import Action
from leadline.config.parameters import describe, parameter_types
from leadline.records.names import EVERY_STATUS

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "reference" / "actions.md"
MARK: Final = "<!-- Generated from here on by scripts/action_pages.py. -->\n"
EXAMPLES: Final = {
    "notify": "leadline run --on 'exploding_tensor=notify:$MAIL' train.py",
    "webhook": "leadline run --on '*=webhook:https://hooks.example.org/training,authorization=Bearer $TOKEN' train.py",
    "publish_metric": "leadline run --on '*=publish_metric:prometheus,port=9300' train.py",
    "put_event": "leadline run --on '*=put_event:training,region=eu-central-1' train.py",
    "run_command": "leadline run --on 'stalled_training=run_command:scancel $SLURM_JOB_ID' train.py",
    "tracker": "leadline run --on '*=tracker' train.py",
    "stop_training": "leadline run --on exploding_tensor=stop_training:grace=60 train.py",
}
"""An example for every action, in the order of the page."""
_PLACES: Final = {
    "judge": "in a process of its own, started by the judge",
    "agent": "in the agent, on the node of the training",
    "worker": "in the training processes",
}
_ARGUMENT: Final = re.compile(r"^(\w+): (.*(?:\n(?!\w+: ).*)*)", re.MULTILINE)


def page() -> str:
    """Return what is below the introduction."""
    return "\n".join([MARK, "## Parameters of every action", "", *_table(Action), "", *map(_section, EXAMPLES)])


def _section(name: str) -> str:
    action = registry.find_action(name)
    text, _ = _read(action)
    amazon = [f"`{alias}`" for alias, canonical in registry.AMAZON.items() if canonical == name]
    facts = [f"Runs {_PLACES[action.place]}.", f"Follows {_statuses(action)} if `--on` names no status."]
    facts += [f"Needs `pip install 'leadline[{action.extra}]'`."] if action.extra else []
    facts += [f"The text after its colon is `{action.target}`."] if action.target else []
    facts += [f"Name in SageMaker Debugger: {', '.join(amazon)}."] if amazon else []
    return "\n".join(
        [
            f"## {name}",
            "",
            text,
            "",
            *(f"* {each}" for each in facts),
            "",
            "```",
            EXAMPLES[name],
            "```",
            "",
            *_table(action),
            "",
        ]
    )


def _statuses(action: type[Action]) -> str:
    return "every status" if EVERY_STATUS in action.statuses else " and ".join(f"`{name}`" for name in action.statuses)


def _read(action: type[Action]) -> tuple[str, dict[str, str]]:
    """Return the text above ``Args:``, and the description of each parameter."""
    text, _, arguments = (inspect.getdoc(action) or "").partition("\nArgs:\n")
    descriptions = {match[1]: " ".join(match[2].split()) for match in _ARGUMENT.finditer(textwrap.dedent(arguments))}
    return _markdown(text.strip()), descriptions


def _table(action: type[Action]) -> list[str]:
    """Return the table of the parameters that an action documents: new ones, and those with another default."""
    _, descriptions = _read(action)
    fields = {field.name: field for field in msgspec.structs.fields(action)}
    kinds = parameter_types(action)
    lines = ["| parameter | default | values | meaning |", "|---|---|---|---|"]
    for name, text in descriptions.items():
        field = fields[name]
        default = "required" if field.required else f"`{_format_default(field.default)}`".replace("``", "empty")
        lines.append(f"| `{name}` | {default} | {_cell(describe(kinds[name]))} | {_cell(text)} |")
    return lines if descriptions else ["No parameters beyond those of every action."]


def _format_default(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return str(value)


def _markdown(text: str) -> str:
    return text.replace("``", "`")


def _cell(text: str) -> str:
    return _markdown(text).replace("|", "\\|")


def main() -> None:
    """Rewrite the page below its introduction."""
    above, _, _ = PAGE.read_text().partition(MARK)
    PAGE.write_text(above + page())


if __name__ == "__main__":
    main()
