"""How long ``leadline check`` takes after a training's first step, on five public kinds of trainings.

The scripts are in ``checked``. Each is checked with the defaults; the figure is the time from the end of its first
optimizer step to the end of the command. The interpreter needs Transformers, peft, Lightning and Stable-Baselines3.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import harness
from harness import Limit, Row

SCRIPTS = Path(__file__).with_name("checked")
TRAININGS = {
    "nanoGPT": "nano_gpt.py",
    "Transformers fine-tuning": "fine_tuning.py",
    "LoRA with peft": "lora.py",
    "Lightning": "lightning_images.py",
    "PPO of SB3": "ppo.py",
}
LIMIT = Limit(20.0)
"""Seconds after the first step."""


def row(name: str, *, rounds: int) -> Row:
    """Check a training so many times; the note has the outcomes and the failures of the first."""
    harness.progress(name)
    checked = [check(SCRIPTS / TRAININGS[name]) for _ in range(rounds)]
    outcomes = [entry["outcome"] for entry in checked[0][1]]
    told = [f"{entry['probe']}: {entry['message']}" for entry in checked[0][1] if entry["outcome"] == "failed"]
    counts = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in ("passed", "failed", "not applicable"))
    return Row(name, "s", harness.spread([seconds for seconds, _ in checked]), LIMIT, note="; ".join([counts, *told]))


def check(script: Path) -> tuple[float, list[dict[str, Any]]]:
    """Check a training; return the seconds after its first step, and what the probes said.

    Raises:
        RuntimeError: It printed no report.
    """
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder, "first-step")
        command = [sys.executable, "-m", "leadline", "check", "--json", __file__, "--train", str(script), str(mark)]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
        now = time.time()
        start = ended.stdout.find('{\n  "step"')
        if start < 0 or not mark.exists():
            raise RuntimeError(f"{script.name}: {ended.stderr[-2000:]}")
        report = json.JSONDecoder().raw_decode(ended.stdout, start)[0]
        return now - float(mark.read_text()), report["checks"]


def train(script: str, mark: str) -> None:
    """Run a script, and write the time at which its first optimizer step ended."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def write(*_: object) -> None:
        handle.remove()
        Path(mark).write_text(str(time.time()))

    handle = register_optimizer_step_post_hook(write)
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")


def main() -> int:
    if sys.argv[1:2] == ["--train"]:
        train(*sys.argv[2:])
        return 0
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    parser = harness.arguments(__doc__, rounds=3, quick_rounds=1)
    parser.add_argument("--only", choices=TRAININGS, help="only this training")
    options = parser.parse_args()
    started = harness.machine()
    rows = [row(name, rounds=harness.rounds_of(options)) for name in TRAININGS if options.only in (None, name)]
    return harness.report("check_time", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
