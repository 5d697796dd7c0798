"""``python -m leadline.compaction RUN``: derives the files from which a large run is looked at quickly."""

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

_POLL_SECONDS: Final = 10.0
_NICE: Final = 19


def main() -> int:
    """Compact a run, once or for as long as it goes on."""
    parser = argparse.ArgumentParser(prog="python -m leadline.compaction", description=__doc__)
    parser.add_argument("run", help="a path, or a name below the root")
    parser.add_argument("--follow", action="store_true", help="go on until the run is over")
    parser.add_argument("--place", help="the folder in which compact/ is made; default the run")
    parser.add_argument("--final", action="store_true", help="wait for another that compacts it just now")
    options = parser.parse_args()
    try:
        run = find_run(options.run)
    except LeadlineError as error:
        print(f"leadline: {error}", file=sys.stderr)  # noqa: T201 - it is a command of its own
        return 2
    os.nice(_NICE)
    pa.set_memory_pool(pa.system_memory_pool())  # it gives back what it took
    compactor = Compactor(run, options.place)
    with compactor.alone(is_patient=options.final) as is_alone:
        while is_alone and compactor.is_large():
            is_over = liveness.is_over(run)
            compactor.compact()
            if is_over or not options.follow:
                break
            time.sleep(_POLL_SECONDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
