"""Import time of Leadline and its peers, and the cost of the bootstrap in every Python process of a job.

Fresh interpreters with and without the import alternate (ABBA); the figure is the difference in milliseconds.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence

import harness
from harness import Limit, Row

IMPORT_LIMIT = Limit(30.0)
BOOTSTRAP_LIMIT = Limit(5.0)
PEERS = ("safetensors", "optuna", "trackio", "wandb", "mlflow", "torch")
EMPTY = (sys.executable, "-c", "pass")


def import_row(module: str, *, rounds: int, limit: Limit | None = None) -> Row:
    """Measure the time that importing a module adds to an empty interpreter."""
    return _difference(
        f"import {module}", EMPTY, (sys.executable, "-c", f"import {module}"), rounds=rounds, limit=limit
    )


def bootstrap_row(*, rounds: int) -> Row:
    """Measure the time that the bootstrap adds to an interpreter that trains nothing."""
    name = "bootstrap: python -c pass under leadline run"
    spec = importlib.util.find_spec("leadline.training.bootstrap")
    site = os.path.join(os.path.dirname(spec.origin), "site") if spec and spec.origin else ""
    if not os.path.isfile(os.path.join(site, "sitecustomize.py")):
        return Row(name, "ms", None, BOOTSTRAP_LIMIT, note="leadline/training/bootstrap/site is missing")
    with tempfile.TemporaryDirectory() as run:
        path = os.pathsep.join(filter(None, [site, os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path, "LEADLINE_RUN": run, "LEADLINE_NODE": "node"}
        return _difference(name, EMPTY, EMPTY, rounds=rounds, limit=BOOTSTRAP_LIMIT, environment=environment)


def _difference(
    name: str,
    without: Sequence[str],
    with_import: Sequence[str],
    *,
    rounds: int,
    limit: Limit | None,
    environment: Mapping[str, str] | None = None,
) -> Row:
    harness.progress(name)
    variables = None if environment is None else dict(environment)
    times = harness.pairs(
        lambda: harness.process_seconds(without),
        lambda: harness.process_seconds(with_import, variables),
        count=rounds,
        warmups=2,
    )
    values = [1e3 * (other - empty) for empty, other in times]
    empty_ms = 1e3 * harness.spread([empty for empty, _ in times]).median
    return Row(
        name,
        "ms",
        harness.spread(values),
        limit,
        note=f"empty interpreter {empty_ms:.1f} ms",
        values=tuple(values),
        details={"seconds": times},
    )


def main() -> int:
    options = harness.arguments(__doc__, rounds=50, quick_rounds=5).parse_args()
    started, rounds = harness.machine(), harness.rounds_of(options)
    rows = [
        import_row("leadline", rounds=rounds, limit=IMPORT_LIMIT),
        bootstrap_row(rounds=rounds),
        *(import_row(peer, rounds=max(3, rounds // 5)) for peer in PEERS if importlib.util.find_spec(peer)),
    ]
    return harness.report("import_time", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
