"""Writes the lower part of docs/actions.md from the actions' docstrings; run it after changing an action."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path
from typing import Any, Final

import msgspec

from leadline.actions import registry
from leadline.actions.action import EVERY_STATUS, Action
from leadline.config.parameters import describe, parameter_types

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "actions.md"
MARK: Final = "<!-- From here on written by scripts/action_pages.py from the classes. -->\n"
EXAMPLES: Final = {
    "notify": "leadline run --on 'exploding_tensor=notify:$MAIL' train.py",
    "webhook": "leadline run --on '*=webhook:https://hooks.example.org/training,authorization=Bearer $TOKEN' train.py",
    "publish_metric": "leadline run --on '*=publish_metric:prometheus,port=9300' train.py",
    "put_event": "leadline run --on '*=put_event:training,region=eu-central-1' train.py",
    "run_command": "leadline run --on 'stalled_training=run_command:scancel $SLURM_JOB_ID' train.py",
    "tracker": "leadline run --on '*=tracker' train.py",
    "stop_training": "leadline run --on exploding_tensor=stop_training:grace=60 train.py",
}
"""Every action, in the order of the page."""
_PLACES: Final = {
    "judge": "a process of its own beside the judge",
    "agent": "the agent, which runs on the training's node",
    "worker": "the training processes",
}
_ARGUMENT: Final = re.compile(r"^(\w+): (.*(?:\n(?!\w+: ).*)*)", re.MULTILINE)


def page() -> str:
    """The lower part of the page as it should be."""
    return "\n".join([MARK, "## Parameters of every action", "", *_table(Action), "", *map(_section, EXAMPLES)])


def _section(name: str) -> str:
    action = registry.find_action(name)
    text, _ = _read(action)
    amazon = [f"`{each}`" for each, ours in registry.AMAZON.items() if ours == name]
    facts = [f"Done by {_PLACES[action.place]}.", f"Follows {_statuses(action)} where `--on` names no status."]
    facts += [f"Needs `pip install 'leadline[{action.extra}]'`."] if action.extra else []
    facts += [f"What stands behind its colon is `{action.target}`."] if action.target else []
    facts += [f"Also found as {', '.join(amazon)}."] if amazon else []
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
    return "every status" if EVERY_STATUS in action.statuses else " and ".join(f"`{each}`" for each in action.statuses)


def _read(action: type[Action]) -> tuple[str, dict[str, str]]:
    """The text above ``Args:``, and what is said of each parameter."""
    text, _, arguments = (inspect.getdoc(action) or "").partition("\nArgs:\n")
    said = {match[1]: " ".join(match[2].split()) for match in _ARGUMENT.finditer(textwrap.dedent(arguments))}
    return _markdown(text.strip()), said


def _table(action: type[Action]) -> list[str]:
    """The parameters that an action documents: its own, and those that it has another default for."""
    _, said = _read(action)
    fields = {each.name: each for each in msgspec.structs.fields(action)}
    kinds = parameter_types(action)
    lines = ["| parameter | default | takes | |", "|---|---|---|---|"]
    for name, text in said.items():
        default = "required" if fields[name].required else f"`{_spoken(fields[name].default)}`".replace("``", "empty")
        lines.append(f"| `{name}` | {default} | {_cell(describe(kinds[name]))} | {_cell(text)} |")
    return lines if said else ["No parameters but those of every action."]


def _spoken(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return str(value)


def _markdown(text: str) -> str:
    return text.replace("``", "`")


def _cell(text: str) -> str:
    return _markdown(text).replace("|", "\\|")


def main() -> None:
    """Write the lower part anew; what stands above it stays."""
    above, _, _ = PAGE.read_text().partition(MARK)
    PAGE.write_text(above + page())


if __name__ == "__main__":
    main()
