"""Names and messages with markup and control characters, which must be shown as plain text."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from leadline.records.finding import Finding
from leadline.store import layout
from leadline.store.documents import append_line, make_folder, read_document, write_document

MARKUP: Final = "<script>alert('names are text')</script>"
PATH: Final = "../../../../etc/passwd"
LONG: Final = "endless" * 1430
"""Ten kilobytes."""
EMOJI: Final = "💥 naïve 模型 😀"
QUOTED: Final = "\"onmouseover='alert(1)'\" & <img src=x onerror=alert(2)>"
FORMULA: Final = "$E=mc^2$ %{y} {{ 7 * 7 }} {% raw %}"
TURNED: Final = "exe.\u202egpj"
"""A name that reverses the direction of text."""
SQUARED: Final = "layer²"
"""A digit that is not a number."""
NUMBERED: Final = "layer" + "9" * 10_000
"""A number that Python does not parse."""
NAMES: Final = (MARKUP, PATH, LONG, EMOJI, QUOTED, FORMULA, TURNED, SQUARED, NUMBERED)


def write_rule(
    run: str,
    alias: str,
    *,
    rule: str = "",
    verdict: str = "clear",
    why: str = "",
    judged_steps: int = 10,
    parameters: Mapping[str, Any] | None = None,
    findings: Sequence[Finding] = (),
    explained_by: str | None = None,
) -> None:
    """Write the files of a rule, as a judge does.

    Args:
        rule: The rule's own name; "": the alias.
        verdict: ``clear``, ``fired``, ``undecided``; or ``error``: the rule itself failed.
    """
    status = {"fired": "IssuesFound", "error": "Error"}.get(verdict, "NoIssuesFound")
    status = {
        "name": alias,
        "rule": rule or alias,
        "status": status,
        "verdict": verdict,
        "why": why,
        "judged_steps": judged_steps,
        "findings": len(findings),
        "explained_by": explained_by,
    }
    make_folder(os.path.dirname(os.path.join(run, layout.rule_status(alias))))
    write_document(os.path.join(run, layout.rule_status(alias)), {**status, "parameters": dict(parameters or {})})
    for finding in findings:
        append_line(os.path.join(run, layout.rule_findings(alias)), {"event": "opened", **asdict(finding)})
    path = os.path.join(run, layout.RULE_SUMMARY)
    known = [rule for rule in (read_document(path) or {}).get("rules", []) if rule["name"] != alias]
    write_document(path, {"complete": True, "rules": [*known, status], "announcements": []})
