"""``python -m leadline.compaction RUN``: derive sorted files from a large run, for fast queries."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Final

import pyarrow as pa

from leadline.compaction.compactor import Compactor
from leadline.errors import LeadlineError
from leadline.reader import liveness
from leadline.reader.find_runs import find_run
from leadline.reader.pandas_import import skip_pandas_import

_POLL_SECONDS: Final = 10.0
_NICE: Final = 19


def main() -> int:
    """Compact a run, once or until it is over."""
    parser = argparse.ArgumentParser(prog="python -m leadline.compaction", description=__doc__)
    parser.add_argument("run", help="path of a run, or its name in the runs directory")
    parser.add_argument("--follow", action="store_true", help="continue until the run is over")
    parser.add_argument("--place", help="folder for compact/; default: the run directory")
    parser.add_argument("--final", action="store_true", help="wait for another process that is compacting the run")
    options = parser.parse_args()
    try:
        run = find_run(options.run)
    except LeadlineError as error:
        print(f"leadline: {error}", file=sys.stderr)  # noqa: T201 - a command of its own
        return 2
    os.nice(_NICE)
    skip_pandas_import()
    pa.set_memory_pool(pa.system_memory_pool())  # returns freed memory to the system
    compactor = Compactor(run, options.place)
    with compactor.lock(wait=options.final) as is_locked:
        while is_locked and compactor.is_large():
            is_over = liveness.is_over(run)
            compactor.compact()
            if is_over or not options.follow:
                break
            time.sleep(_POLL_SECONDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
