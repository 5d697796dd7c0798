"""Programs that were written without knowledge of the rules, in docs/reference/rules/blind.md.

``python tests/detection/blind.py RESULTS`` runs all programs of ``tests/detection/blind`` and ``blind2`` with
``leadline run --check`` and default options, each mistake with its twin, keeps what was said in a file, and writes the
page; programs that the file has are not repeated. It takes an hour on two cores. ``--second`` runs the second set
alone, and replaces its section of the page.
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
_HEAD = """# Blind set

{pairs} mistakes that people asked about in public, in programs whose author did not know the rules: each was written
from a thread or paper, with a repaired twin, by somebody who had not seen the code, the rules or the other programs.
They are in `tests/detection/blind`. Beside the [programs that rules were written for](recall.md) they show what to
expect of a mistake that nobody has planned for.

At the first run, with `leadline run --check` and default options, **{first} of {pairs} were named**: a rule, a probe or
a remark says what is wrong. Now it is {now}, {mended} of them because a rule has learned their kind since. Of {twins}
twins, {alarms} had a finding. *Named by* are the rules that say the cause, if they said it; other findings are
symptoms, or wrong. `python tests/detection/blind.py RESULTS` regenerates this page.

{table}"""
_SECOND_TITLE = "\n## Second set\n"
_SECOND_HEAD = """{title}
{pairs} further mistakes, by somebody else who had not seen the code, the rules or the other programs (December 2026).
They are in `tests/detection/blind2`. **{first} of {pairs} were named at the first run**, before any rule had learned
from them; now it is {now}. Of {twins} twins, {alarms} had a finding.

{table}"""
_TABLE = """| mistake | asked | named by | at first | other findings |
|---|---|---|---|---|
"""


def _switched(path: Path, is_repaired: bool) -> Program:
    """Return a program of the second set, with its mistake or repaired."""
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
    head: str

    @property
    def programs(self) -> dict[str, dict[str, Any]]:
        """By name: the mistake, where it was asked, the rules that name it, and what was said of the first run."""
        return tomllib.loads((self.folder / "programs.toml").read_text())


FIRST: Final = BlindSet(HERE / "blind", {"mistake": mistaken, "twin": repaired}, _HEAD)
SECOND: Final = BlindSet(
    HERE / "blind2",
    {"mistake": partial(_switched, is_repaired=False), "twin": partial(_switched, is_repaired=True)},
    _SECOND_HEAD,
)


def judged(program: Program) -> dict[str, Any]:
    """Run a program; return the rules with findings and those with remarks."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "program.py")
        script.write_text(program.source)
        words = ["-P", "-m", "leadline", "run", "--check", "--out", folder, "--name", "run"]
        subprocess.run(
            [interpreter(program.source), *words, str(script)],
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
    }


def run_all(blind: BlindSet, kept: Path, only: str) -> dict[str, dict[str, Any]]:
    """Run the programs of a set; return the results by name and kind."""
    results: dict[str, dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else {}
    for name in blind.programs:
        for kind, program in blind.kinds.items():
            key = f"{name}/{kind}"
            if key not in results and only in key:
                results[key] = judged(program(blind.folder / f"{name}.py"))
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
    found = f"\n{'##' if blind is FIRST else '###'} Findings in twins\n\n{''.join(twins)}" if twins else ""
    return blind.head.format(**counts, alarms=alarms or "none", table=table, title=_SECOND_TITLE) + found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, metavar="RESULTS", help="where the results are kept, as JSON")
    parser.add_argument("--only", default="", metavar="TEXT", help="only programs whose name contains the text")
    parser.add_argument("--second", action="store_true", help="only the second set, and its section")
    options = parser.parse_args()
    sets = [SECOND] if options.second else [FIRST, SECOND]
    complete = [run_all(blind, options.results, options.only) for blind in sets]
    expected = sum(len(blind.programs) * len(blind.kinds) for blind in sets)
    if len(complete[-1]) >= expected:
        before = PAGE.read_text().partition(_SECOND_TITLE)[0] if options.second else ""
        PAGE.write_text(before + "".join(section(blind, complete[-1]) for blind in sets))
    return 0


if __name__ == "__main__":
    sys.exit(main())
