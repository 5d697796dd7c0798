"""``python -m leadline.remote RUN``: uploads a run while its job runs, in a process of its own.

SIGTERM says that nothing is written any more: it ends once everything is uploaded. Without its agent it continues until
the run has not changed for a while.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress

from leadline.errors import LeadlineError
from leadline.remote.exchange import PULSE_SECONDS, Exchange
from leadline.remote.upload import Upload

_ROUND_SECONDS = 2.0
_FINAL_SECONDS = 0.5
_IDLE_SECONDS = 30.0
_GIVE_UP_SECONDS = 600.0


def main(run: str) -> int:
    """Upload a run until it is complete; return the exit status."""
    should_finish = threading.Event()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: should_finish.set())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))  # the agent blocks it until there is a handler
    agent = os.getppid()
    try:
        upload = Upload(run)
    except LeadlineError as error:
        sys.stderr.write(f"leadline: {error}\n")
        return 1
    if upload.exchange is not None:
        threading.Thread(target=_keep_pulsing, args=(upload.exchange,), name="leadline-pulse", daemon=True).start()
    last_progress = time.monotonic()
    while os.path.isdir(run):
        has_agent = os.getppid() == agent
        is_final = should_finish.is_set() or (not has_agent and time.monotonic() - last_progress > _IDLE_SECONDS)
        if upload.advance(is_final=is_final):
            last_progress = time.monotonic()
        if is_final and upload.state.is_complete:
            if upload.exchange is not None:
                with suppress(LeadlineError):  # the others notice that there are no more signs
                    upload.exchange.leave()
            return 0
        if not has_agent and time.monotonic() - last_progress > _GIVE_UP_SECONDS:
            return 1
        pause = max(upload.backoff_seconds, _ROUND_SECONDS)
        if should_finish.is_set():
            time.sleep(min(max(upload.backoff_seconds, _FINAL_SECONDS), 5.0))
        else:
            should_finish.wait(pause)
    return 1


def _keep_pulsing(exchange: Exchange) -> None:
    """Stay in touch with the other nodes also while much data is uploaded."""
    while True:
        with suppress(LeadlineError, OSError):  # the upload, which meets the same failure, tells it
            exchange.pulse()
        time.sleep(PULSE_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
