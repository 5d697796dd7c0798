"""What the checks of a run have found on copies of its training."""

from __future__ import annotations

import os

from leadline.records.check_result import PROBES, CheckResult
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.store.folder_watch import names_in


def read_checks(run: str) -> dict[str, list[CheckResult]]:
    """Return the results of each worker, in the order of the probes; empty: the run has no checks.

    Args:
        run: The run directory.
    """
    found: dict[str, list[CheckResult]] = {}
    for name in names_in(os.path.join(run, layout.CHECKS)):
        document = read_document(os.path.join(run, layout.CHECKS, name))
        entries = document.get("checks") if isinstance(document, dict) else None
        if not isinstance(entries, list):
            continue
        results = [CheckResult.from_dict(entry) for entry in entries if isinstance(entry, dict)]
        known = {result.probe: result for result in results}
        found[name.removesuffix(".json")] = [known[probe] for probe in PROBES if probe in known]
    return found
