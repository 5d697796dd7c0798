"""``python -m leadline.reader.restart RUN RESTARTS``: begins an incarnation within a running job.

The workers that torchrun has started again record in this incarnation. The agents and the judge continue; readers and
rules replace the repeated steps as in any resumed run.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import time
from dataclasses import replace
from typing import Final

from leadline.errors import LeadlineError
from leadline.reader.resumption import next_incarnation
from leadline.records.request import Stop
from leadline.store import layout
from leadline.store.control import read_requests
from leadline.store.documents import PRIVATE_FILE, read_document, write_document
from leadline.store.incarnations import read_incarnations
from leadline.store.node_lock import acquire_lock, release_lock
from leadline.store.run_state import read_exit_status, read_workers

_POLL_SECONDS: Final = 0.05


def restart(run: str, restarts: int) -> bool:
    """Begin the incarnation of workers that were started again; return whether this process did.

    After a stop was requested, none begins: the workers obey the request at once.

    Args:
        run: The run directory; the job runs, and none of its workers does.
        restarts: How often the workers were started again.
    Raises:
        OSError: The run cannot be written.
        LeadlineError: It is no readable run.
    """
    path = os.path.join(run, layout.RESUME_LOCK)
    while (lock := acquire_lock(path)) is None:
        time.sleep(_POLL_SECONDS)
    try:
        before = read_incarnations(run)
        is_stopping = any(isinstance(one, Stop) and one.id not in before.requests for one in read_requests(run))
        if before.restarts >= restarts or is_stopping:
            return False
        of_others = read_document(os.path.join(run, layout.OTHERS)) or ()  # their streams go on where they are
        found, _ = next_incarnation(run, without={name.removeprefix(f"{layout.WORKERS}/") for name in of_others})
        codes = (read_exit_status(run, worker) for worker in read_workers(run))
        exit_status = next((code for code in codes if code), None)
        last = replace(found.starts[-1], status="Failed", exit_status=exit_status, restarts=restarts)
        _remove_compacted(run)
        write_document(
            os.path.join(run, layout.INCARNATIONS),
            replace(found, starts=(*before.starts, last), resume_step=None, requests=before.requests),
        )
        return True
    finally:
        release_lock(lock, path)


def _remove_compacted(run: str) -> None:
    """Remove what was derived of steps that will be repeated; it is derived again without them."""
    path = os.path.join(run, layout.COMPACT_LOCK)
    if not os.path.exists(path):
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        shutil.rmtree(os.path.join(run, layout.COMPACT), ignore_errors=True)
    finally:
        os.close(descriptor)


def main(run: str, restarts: str) -> int:
    """Begin the incarnation; return the exit status."""
    try:
        restart(run, int(restarts))
    except (LeadlineError, OSError) as error:
        sys.stderr.write(f"leadline: the steps of restarted workers are counted apart: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
