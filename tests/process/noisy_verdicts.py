"""Verdicts on a noisy machine: ``python tests/process/noisy_verdicts.py [RUNS [LOOPS [REFERENCES]]]``.

Each of five trainings is run ``REFERENCES`` times as it is (3), and then ``RUNS`` times (10) beside ``LOOPS`` processes
(2) that each keep a processor busy, all with the default rules, captures and budget. The exit status, the verdict of
each rule and the bottleneck must be those of most of the first runs; what differs is printed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from launching import Ended, script, watched

TRAININGS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "healthy": ((), ("ending.py", "healthy")),
    "a NaN, stopped": (("--on", "exploding_tensor=stop_training"), ("exploding.py", "loss", "60")),
    "missing zero_grad": ((), ("faults.py", "missing_zero_grad")),
    "a load that sleeps": ((), ("bound.py", "sleeping_load")),
    "a slow data loader": ((), ("bound.py", "loader")),
}
"""Options of ``leadline run``, and the script with its arguments."""
_SPIN = f"import os\nwhile os.getppid() == {os.getpid()}: pass"


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep processors busy."""
    others = [subprocess.Popen([sys.executable, "-S", "-E", "-c", _SPIN]) for _ in range(loops)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def run(training: str) -> dict[str, str]:
    """Run a training; return what is said about it: status, verdicts and bottleneck."""
    options, (name, *arguments) = TRAININGS[training]
    with tempfile.TemporaryDirectory() as folder:
        ended: Ended = watched((*options, "--budget", "2%"), script(name), *arguments, folder=Path(folder))
        shown = ended.show()
    bound = (shown["time"] or {}).get("bound") or {}
    said = {rule["name"]: rule["verdict"] for rule in shown["rules"]}
    return said | {"exit status": str(ended.status), "bottleneck": f"{bound.get('kind')}, {bound.get('phase')}"}


def main() -> int:
    runs, loops, references = (int(word) for word in (*sys.argv[1:], "10", "2", "3")[:3])
    differing = 0
    for training in TRAININGS:
        quiet = [run(training) for _ in range(references)]
        names = dict.fromkeys(name for said in quiet for name in said)
        usual = {name: Counter(said.get(name, "") for said in quiet).most_common(1)[0][0] for name in names}
        with busy(loops):
            differences = [differing_from(usual, run(training)) for _ in range(runs)]
        differing += sum(map(bool, differences))
        verdicts = Counter(what for name, what in usual.items() if name not in ("exit status", "bottleneck"))
        told = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
        print(f"{training}: {sum(not found for found in differences)} of {runs} the same", end=" ")
        print(f"({told}; bottleneck {usual['bottleneck']}; exit status {usual['exit status']})")
        for difference, count in Counter(line for found in differences for line in found).most_common():
            print(f"    {count}x {difference}")
        sys.stdout.flush()
    return 1 if differing else 0


def differing_from(usual: dict[str, str], said: dict[str, str]) -> list[str]:
    """Return what is said otherwise than usual."""
    return [f"{name}: {usual.get(name)} → {what}" for name, what in said.items() if usual.get(name) != what]


if __name__ == "__main__":
    sys.exit(main())
