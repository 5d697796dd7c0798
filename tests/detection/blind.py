"""Programs that were written without knowledge of the rules, in docs/reference/rules/blind.md.

``python tests/detection/blind.py RESULTS`` runs all programs of the sets (the folders ``tests/detection/blind*``) with
``leadline run --check`` and default options, each mistake with its twin, keeps what was said in a file, and writes the
page; programs that the file has are not repeated. It takes two hours on two cores. ``--set blind2`` runs one set alone,
and replaces its section of the page; it can be given several times.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

sys.path.append(str(Path(__file__).parents[1] / "process"))
from judged_runs import judge
from programs import Program, interpreter, mistaken, repaired

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "rules" / "blind.md"
_SECONDS = 600
_SWITCH = 'FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"'
_HEAD = """{title}
{pairs} mistakes that people asked about in public, in programs whose author did not know the rules: each was written
from a thread or paper, with a repaired twin, by somebody who had not seen the code, the rules or the other programs.
They are in `tests/detection/blind`. Beside the [programs that rules were written for](recall.md) they show what to
expect of a mistake that nobody has planned for.

At the first run, with `leadline run --check` and default options, **{first} of {pairs} were named**: a rule, a probe or
a remark says what is wrong. Now it is {now}, {mended} of them because a rule has learned their kind since. Of {twins}
twins, {alarms} had a finding. *Named by* are the rules that say the cause, if they said it; other findings are
symptoms, or wrong. `python tests/detection/blind.py RESULTS` regenerates this page.

{table}"""
_FURTHER_HEAD = """{title}
{pairs} further mistakes, by somebody else who had not seen the code, the rules or the other programs (December 2026).
They are in `tests/detection/{folder}`. **{first} of {pairs} were named at the first run**, before any rule had learned
from them; now it is {now}. Of {twins} twins, {alarms} had a finding.

{table}"""
_TABLE = """| mistake | asked | named by | at first | other findings |
|---|---|---|---|---|
"""


def _switched(path: Path, is_repaired: bool) -> Program:
    """Return a program that has both in one file, with its mistake or repaired."""
    source = path.read_text()
    if _SWITCH not in source:
        raise ValueError(f"{path} does not say {_SWITCH}")
    return Program(path.stem, str(path), source.replace(_SWITCH, f"FIXED = {is_repaired}"))


@dataclass(frozen=True)
class BlindSet:
    """Programs of one author."""

    folder: Path
    kinds: Mapping[str, Callable[[Path], Program]]
    """Make a program with its mistake, and its twin."""
    title: str
    """The heading of its section in the page, with the line ends around it."""
    head: str = _FURTHER_HEAD

    @property
    def programs(self) -> dict[str, dict[str, Any]]:
        """By name: the mistake, where it was asked, the rules that name it, and what was said of the first run."""
        return tomllib.loads((self.folder / "programs.toml").read_text())

    def python(self, name: str) -> str:
        """Return the interpreter of the environment that a program names; empty: its imports decide."""
        environment = self.programs[name].get("python")
        return str(HERE.parents[1] / ".venvs" / environment / "bin" / "python") if environment else ""


_SWITCHED: Final = {"mistake": partial(_switched, is_repaired=False), "twin": partial(_switched, is_repaired=True)}
SETS: Final = {
    blind.folder.name: blind
    for blind in (
        BlindSet(HERE / "blind", {"mistake": mistaken, "twin": repaired}, "# Blind set\n", _HEAD),
        BlindSet(HERE / "blind2", _SWITCHED, "\n## Second set\n"),
        BlindSet(HERE / "blind3", _SWITCHED, "\n## Third set\n"),
        BlindSet(HERE / "blind4", _SWITCHED, "\n## Fourth set\n"),
    )
}


def judged(program: Program, python: str) -> dict[str, Any]:
    """Run a program; return the rules with findings and those with remarks, and how the command ended."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "program.py")
        script.write_text(program.source)
        words = ["-P", "-m", "leadline", "run", "--check", "--out", folder, "--name", "run"]
        ended = subprocess.run(
            [python, *words, str(script)],
            cwd=folder,
            env=os.environ | {"HF_HUB_OFFLINE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
        )
        rules = judge(Path(folder, "run"))
    return {
        "fired": {name: rule.findings[0] for name, rule in rules.items() if rule.findings},
        "remarks": {name: rule.remarks for name, rule in rules.items() if rule.remarks},
        "exit_code": ended.returncode,
        "output": ended.stdout.decode(errors="replace")[-4000:],
    }


def run_all(blind: BlindSet, kept: Path, only: str) -> dict[str, dict[str, Any]]:
    """Run the programs of a set; return the results by name and kind."""
    results: dict[str, dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else {}
    for name in blind.programs:
        for kind, program in blind.kinds.items():
            key = f"{name}/{kind}"
            if key not in results and only in key:
                switched = program(blind.folder / f"{name}.py")
                results[key] = judged(switched, blind.python(name) or interpreter(switched.source))
                kept.write_text(json.dumps(results, indent=1))
                print(key, *results[key]["fired"], *results[key]["remarks"], flush=True)
    return results


def section(blind: BlindSet, results: Mapping[str, dict[str, Any]]) -> str:
    """Return the section of a set."""
    programs, rows, now, mended, alarms = blind.programs, [], 0, 0, 0
    for name, program in programs.items():
        of_mistake, of_twin = results[f"{name}/mistake"], results[f"{name}/twin"]
        said = {*of_mistake["fired"], *of_mistake["remarks"]}
        naming = [rule for rule in program["named_by"] if rule in said and rule not in of_twin["fired"]]
        others = [rule for rule in of_mistake["fired"] if rule not in naming]
        now += bool(naming)
        mended += bool(naming) and program["at_first"] != "named"
        alarms += bool(of_twin["fired"])
        asked = ", ".join(
            f"[{at}]({link})" if link.startswith("http") else link for at, link in enumerate(program["asked"], 1)
        )
        cells = (program["mistake"], asked, ", ".join(naming), program["at_first"], ", ".join(others))
        rows.append(f"| {' | '.join(cells)} |\n")
    first = sum(program["at_first"] == "named" for program in programs.values())
    twins = [
        f"* *{program['mistake']}* {rule}: {message}\n"
        for name, program in programs.items()
        for rule, message in results[f"{name}/twin"]["fired"].items()
    ]
    counts = {"pairs": len(programs), "first": first, "now": now, "mended": mended, "twins": len(programs)}
    table = _TABLE + "".join(rows)
    level = blind.title.split()[0]
    found = f"\n{level}# Findings in twins\n\n{''.join(twins)}" if twins else ""
    words = {"title": blind.title, "folder": blind.folder.name, "alarms": alarms or "none", "table": table}
    return blind.head.format(**counts, **words) + found


def replaced(page: str, blind: BlindSet, text: str) -> str:
    """Return the page with another section of a set, which ends where that of the next set starts."""
    starts = sorted({page.index(other.title) for other in SETS.values() if other.title in page} | {len(page)})
    start = page.index(blind.title) if blind.title in page else len(page)
    end = next((at for at in starts if at > start), len(page))
    return page[:start] + text + page[end:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, metavar="RESULTS", help="where the results are kept, as JSON")
    parser.add_argument("--only", default="", metavar="TEXT", help="only programs whose name contains the text")
    parser.add_argument("--set", action="append", choices=SETS, help="only this set, and its section of the page")
    options = parser.parse_args()
    for blind in (SETS[name] for name in options.set or SETS):
        results = run_all(blind, options.results, options.only)
        if all(f"{name}/{kind}" in results for name in blind.programs for kind in blind.kinds):
            PAGE.write_text(replaced(PAGE.read_text(), blind, section(blind, results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
