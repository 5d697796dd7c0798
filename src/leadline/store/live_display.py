"""The display of a run in a notebook, which follows the run while it trains."""

from __future__ import annotations

import threading
import time
from typing import Final

from leadline.records.names import JOB_ENDED
from leadline.store.run_html import verdict_html
from leadline.store.run_state import read_status

_SHORTEST_PAUSE_SECONDS: Final = 1.0
_LARGEST_SHARE: Final = 0.005
"""Of the time of a core; the kernel trains in the same process."""

_followers: dict[str, threading.Thread] = {}
"""The thread that updates the displays of a run, by its directory."""


def display_live(run: str, text: str) -> None:
    """Display the verdict of a run in the kernel of a notebook, and update it until the run has ended.

    All cells that display a run are updated together, and the notebook keeps what they showed last.

    Args:
        run: The run directory.
        text: What is displayed where there is no HTML.
    Raises:
        NotImplementedError: The run has ended, or there is no notebook; IPython then displays the run as it is.
    """
    from IPython import get_ipython
    from IPython.display import display

    if getattr(get_ipython(), "kernel", None) is None or _has_ended(run):
        raise NotImplementedError
    html = verdict_html(run)
    display(_bundle(html, text), raw=True, display_id=_display_id(run))
    follower = _followers.get(run)
    if follower is None or not follower.is_alive():
        _followers[run] = threading.Thread(target=_follow, args=(run, html, text), name="leadline-display", daemon=True)
        _followers[run].start()


def _follow(run: str, shown: str, text: str) -> None:
    """Update the displays of a run whenever its HTML changes."""
    from IPython.display import update_display

    took, has_ended = 0.0, False
    while not has_ended:
        time.sleep(max(_SHORTEST_PAUSE_SECONDS, took / _LARGEST_SHARE))
        begun = time.thread_time()
        has_ended = _has_ended(run)  # before the HTML is made, which is thus the last one
        html = verdict_html(run)
        if html != shown:
            update_display(_bundle(html, text), raw=True, display_id=_display_id(run))
            shown = html
        took = time.thread_time() - begun


def _has_ended(run: str) -> bool:
    return read_status(run).status in JOB_ENDED


def _bundle(html: str, text: str) -> dict[str, str]:
    return {"text/html": html, "text/plain": text}


def _display_id(run: str) -> str:
    return f"leadline:{run}"
