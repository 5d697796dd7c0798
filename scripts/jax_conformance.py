"""Run JAX's own tests of ``jax.jit`` with and without Leadline, and compare which of them pass.

Usage: ``.venvs/jax/bin/python scripts/jax_conformance.py FILE [-k EXPRESSION]``, where FILE is ``tests/api_test.py`` of
the installed version of JAX, which its packages do not contain. Needs pytest, and exits with 1 if a test differs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

SELECTED = "JitTest or CPPJitTest or (APITest and jit)"


def outcomes(file: str, expression: str, folder: Path, *launcher: str) -> dict[str, str]:
    """Return what became of each test."""
    report = folder / f"{len(launcher)}.xml"
    command = [sys.executable, "-m", "pytest", file, "-k", expression, "-q", f"--junit-xml={report}", "-p", "no:xdist"]
    subprocess.run([*launcher, *command], cwd=folder, check=False)
    cases = ElementTree.parse(report).iter("testcase")
    return {f"{case.get('classname')}.{case.get('name')}": _outcome(case) for case in cases}


def _outcome(case: ElementTree.Element) -> str:
    kinds = [kind for kind in ("failure", "error", "skipped") if case.find(kind) is not None]
    return kinds[0] if kinds else "passed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("-k", dest="expression", default=SELECTED)
    options = parser.parse_args()
    leadline = str(Path(sys.executable).with_name("leadline"))
    with tempfile.TemporaryDirectory() as name:
        folder, file = Path(name), str(Path(options.file).resolve())
        bare = outcomes(file, options.expression, folder)
        runs = str(folder / "runs")
        watched = outcomes(file, options.expression, folder, leadline, "run", "--out", runs, "--no-default-rules", "--")
    differing = {test: (bare.get(test), watched.get(test)) for test in bare.keys() | watched.keys()}
    differing = {test: both for test, both in differing.items() if both[0] != both[1]}
    for test, (before, after) in sorted(differing.items()):
        sys.stdout.write(f"{test}: {before} without Leadline, {after} with it\n")
    passed = sum(outcome == "passed" for outcome in bare.values())
    sys.stdout.write(f"{len(bare)} tests, {passed} pass, {len(differing)} differ\n")
    return int(bool(differing) or not bare)


if __name__ == "__main__":
    sys.exit(main())
