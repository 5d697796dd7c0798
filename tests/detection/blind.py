"""Programs that were written without knowledge of the rules, in docs/reference/rules/blind.md.

``python tests/detection/blind.py RESULTS`` runs all programs of ``tests/detection/blind`` with ``leadline run --check``
and default options, each mistake with its twin, keeps what was said in a file, and writes the page; programs that the
file has are not repeated. It takes half an hour on two cores.
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
from pathlib import Path
from typing import Any, Final

sys.path.append(str(Path(__file__).parents[1] / "process"))
from judged_runs import judge
from programs import Program, interpreter, mistaken, repaired

HERE = Path(__file__).parent
BLIND = HERE / "blind"
PROGRAMS = tomllib.loads((BLIND / "programs.toml").read_text())
"""By name: the mistake, where it was asked, the rules that name it, and what was said of the first run."""
PAGE = HERE.parents[1] / "docs" / "reference" / "rules" / "blind.md"
KINDS: Final[Mapping[str, Callable[[Path], Program]]] = {"mistake": mistaken, "twin": repaired}
_SECONDS = 600
_HEAD = """# Blind set

{pairs} mistakes that people asked about in public, in programs whose author did not know the rules: each was written
from a thread or paper, with a repaired twin, by somebody who had not seen the code, the rules or the other programs.
They are in `tests/detection/blind`. Beside the [programs that rules were written for](recall.md) they show what to
expect of a mistake that nobody has planned for.

At the first run, with `leadline run --check` and default options, **{first} of {pairs} were named**: a rule, a probe or
a remark says what is wrong. Now it is {now}, {mended} of them because a rule has learned their kind since. Of {twins}
twins, {alarms} had a finding. *Named by* are the rules that say the cause, if they said it; other findings are
symptoms, or wrong. `python tests/detection/blind.py RESULTS` regenerates this page.

| mistake | asked | named by | at first | other findings |
|---|---|---|---|---|
"""


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


def run_all(kept: Path, only: str) -> dict[str, dict[str, Any]]:
    """Run the programs; return the results by name and kind."""
    results: dict[str, dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else {}
    for name in PROGRAMS:
        for kind, program in KINDS.items():
            key = f"{name}/{kind}"
            if key not in results and only in key:
                results[key] = judged(program(BLIND / f"{name}.py"))
                kept.write_text(json.dumps(results, indent=1))
                print(key, *results[key]["fired"], *results[key]["remarks"], flush=True)
    return results


def page(results: Mapping[str, dict[str, Any]]) -> str:
    """Return the page."""
    rows, now, mended, alarms = [], 0, 0, 0
    for name, program in PROGRAMS.items():
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
    first = sum(program["at_first"] == "named" for program in PROGRAMS.values())
    twins = [
        f"* *{PROGRAMS[name]['mistake']}* {rule}: {message}\n"
        for name in PROGRAMS
        for rule, message in results[f"{name}/twin"]["fired"].items()
    ]
    counts = {"pairs": len(PROGRAMS), "first": first, "now": now, "mended": mended, "twins": len(PROGRAMS)}
    found = f"\n## Findings in twins\n\n{''.join(twins)}" if twins else ""
    return _HEAD.format(**counts, alarms=alarms or "none") + "".join(rows) + found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, metavar="RESULTS", help="where the results are kept, as JSON")
    parser.add_argument("--only", default="", metavar="TEXT", help="only programs whose name contains the text")
    options = parser.parse_args()
    results = run_all(options.results, options.only)
    if len(results) == len(PROGRAMS) * len(KINDS):
        PAGE.write_text(page(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
