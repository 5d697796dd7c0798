"""``python -m leadline.judge.render_report RUN PRODUCT``: renders a report of a run, and ends with the judge."""

from __future__ import annotations

import signal
import sys

from leadline.judge.parent_death import die_with_parent


def main() -> int:
    """Render the report into the run; an error is one line on standard error."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    die_with_parent()
    try:
        from leadline.reports.__main__ import main as render
    except ModuleNotFoundError as error:
        sys.stderr.write(f"leadline: reports need {error.name}; install it with: pip install 'leadline[ui]'\n")
        return 2
    return render()


if __name__ == "__main__":
    sys.exit(main())
