"""All checks that need a GPU, in one command of at most eight minutes: ``scripts/gpu-check``.

Each part runs in a process of its own and within a time of its own, so that one that crashes or hangs costs only
itself. Without a GPU everything else runs, with smaller models. The results are printed, and written as one JSON file.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import gpu_parts
import harness
from gpu_parts import LATE, Part

LIMIT_SECONDS: Final = 480.0
_LEAST_SECONDS: Final = 15.0
"""A part for which less time is left is not begun."""
_END_SECONDS: Final = 5.0
"""What a part has at its end to write what it found."""


def run_part(part: Part, seconds: float, device: str, *, is_quick: bool) -> dict[str, Any]:
    """Run a part in a process of its own; return its result."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="leadline-gpu-") as folder:
        file, log = Path(folder, "result.json"), Path(folder, "log")
        command = [sys.executable, gpu_parts.__file__, part.name, "--result", str(file), "--device", device]
        command += ["--seconds", str(seconds - _END_SECONDS), *(["--quick"] if is_quick else [])]
        problem = _finish(command, log, seconds)
        result = json.loads(file.read_text()) if file.exists() else {"status": "failed", "reason": "", "figures": {}}
        if problem:
            result["status"], result["reason"] = "failed", problem
        if result["reason"] == LATE and seconds < part.limit_seconds:
            result["status"], result["reason"] = "left out", "no time to end"
        if result["status"] == "failed":
            result["log"] = log.read_text(errors="replace")[-4000:]
    return {"name": part.name, **result, "seconds": round(time.monotonic() - began, 1)}


def _finish(command: Sequence[str], log: Path, seconds: float) -> str:
    """Run a command to its end or that of its time; return why it failed, or nothing."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEADLINE")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_END_SECONDS / 2)
            return LATE
        finally:
            _end(process)
    if status == 0:
        return ""
    lines = log.read_text(errors="replace").strip().splitlines()
    return f"ended with status {status}: {lines[-1] if lines else 'without a message'}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what a part has left running."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def left_out(part: Part, *, has_gpu: bool, seconds: float) -> dict[str, Any] | None:
    """Return the result of a part that is not run; None: it is run."""
    status, reason = "", ""
    if part.needs_gpu and not has_gpu:
        status, reason = "skipped", "needs a GPU"
    elif seconds < _LEAST_SECONDS:
        status, reason = "left out", "no time"
    return {"name": part.name, "status": status, "reason": reason, "figures": {}, "seconds": 0.0} if status else None


def show(result: dict[str, Any]) -> None:
    """Print the result of a part."""
    reason = f"  {result['reason']}" if result["reason"] else ""
    print(f"{result['name']:<16}{result['status']:<9}{result['seconds']:>6.1f} s{reason}")
    for name, value in result["figures"].items():
        print(f"    {name}: {_text(value)}")
    sys.stdout.flush()


def _text(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    if "median" not in value:
        return ", ".join(f"{name} {part}" for name, part in value.items())
    unit = "x" if value["unit"] == "x" else f" {value['unit']}"
    interval = f"{value['low']:.4g} … {value['high']:.4g}, n = {value['n']}"
    return f"{value['median']:.4g}{unit} ({interval}); {value['note']}".removesuffix("; ")


def main() -> int:
    began = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gpu-check.json"), help="the JSON file")
    parser.add_argument("--quick", action="store_true", help="a check that it runs; do not quote the figures")
    parser.add_argument("--parts", help="only these parts, separated by commas; the card is always described")
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)  # in seconds of the epoch, by the shell script
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    end = began + LIMIT_SECONDS - (max(0.0, time.time() - options.began) if options.began else 0.0)
    names = ["card", *(options.parts.split(",") if options.parts else (part.name for part in gpu_parts.PARTS))]
    unknown = set(names) - {part.name for part in gpu_parts.PARTS}
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; known: {', '.join(p.name for p in gpu_parts.PARTS)}")
    document: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": options.quick,
        "machine": harness.machine(),
        "card": {},
        "parts": [],
    }
    for part in [part for part in gpu_parts.PARTS if part.name in names]:
        seconds = min(part.limit_seconds, end - time.monotonic())
        has_gpu = "name" in document["card"]
        result = left_out(part, has_gpu=has_gpu, seconds=seconds)
        if result is None:
            result = run_part(part, seconds, "cuda" if has_gpu else "cpu", is_quick=options.quick)
        show(result)
        document["parts"].append(result)
        if part.name == "card":
            document["card"] = result["figures"]
        document["seconds"] = round(time.monotonic() - began, 1)
        options.out.write_text(json.dumps(document, indent=1) + "\n")
    failed = [result["name"] for result in document["parts"] if result["status"] == "failed"]
    print(f"{document['seconds']:.0f} s, written to {options.out}; failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
