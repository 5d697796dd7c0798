"""Write the summary of a job of GitHub Actions from the JSON of ``leadline show``, and decide whether the job fails.

summarize.py STATUS FAIL_ON < show.json: STATUS is the exit status of ``leadline run``; FAIL_ON is problem, advice or
never.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

LEVELS = {
    "problem": ("problem", "stopped", "failed"),
    "advice": ("advice", "problem", "stopped", "failed"),
    "never": (),
}
"""The verdicts that fail a job."""
MOST_FINDINGS = 10


def main(status: int, fail_on: str, shown: dict[str, Any]) -> int:
    """Write summary, outputs and annotations; return the exit status of the step."""
    if fail_on not in LEVELS:
        print(f"fail-on must be {', '.join(LEVELS)}, not {fail_on!r}", file=sys.stderr)  # noqa: T201
        return 2
    verdict = shown["outcome"]["word"].split()[-1]
    append("GITHUB_OUTPUT", f"verdict={verdict}\n")
    append("GITHUB_STEP_SUMMARY", summary(shown))
    for rule in fired(shown):
        first = rule["findings"][0]
        message = f"{rule['name']}, step {first['step']}: {first['message']}".replace("%", "%25").replace("\n", "%0A")
        print(f"::warning title=Leadline::{message}")  # noqa: T201
    is_bad = verdict in LEVELS[fail_on]
    return 1 if is_bad or (status not in (0, 10) and fail_on != "never") else 0


def fired(shown: dict[str, Any]) -> list[dict[str, Any]]:
    return [rule for rule in shown["rules"] if rule["findings"]][:MOST_FINDINGS]


def summary(shown: dict[str, Any]) -> str:
    """Return the summary as Markdown."""
    lines = [
        f"### {escaped(shown['outcome']['word'])} · {escaped(shown['name'])}",
        "",
        escaped(shown["outcome"]["text"]),
    ]
    if rules := fired(shown):
        lines += ["", "| rule | step | finding | try |", "|---|---|---|---|"]
        for rule in rules:
            first = rule["findings"][0]
            cells = (rule["name"], str(first["step"]), first["message"], first["suggestion"] or "")
            lines.append(f"| {' | '.join(map(escaped, cells))} |")
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return a text that Markdown and HTML show as it is, in one line."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    return "".join(f"\\{mark}" if mark in "\\`*_{}[]#|~" else mark for mark in text)


def append(variable: str, text: str) -> None:
    """Append to the file that an environment variable names, if it does."""
    if path := os.environ.get(variable):
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1] or 1), sys.argv[2], json.load(sys.stdin)))
