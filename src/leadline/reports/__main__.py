"""``python -m leadline.reports RUN PRODUCT``: make a report of a run anew, in a process of its own."""

from __future__ import annotations

import os
import sys
from typing import Final

from leadline.errors import LeadlineError
from leadline.reports.run_reports import print_product

_NICE: Final = 15
"""It yields to the training."""


def main() -> int:
    """Put the report into the run; one line on standard error where that fails."""
    run, product = sys.argv[1:]
    os.nice(max(0, _NICE - os.nice(0)))
    try:
        print_product(run, product)
    except (LeadlineError, OSError) as error:
        sys.stderr.write(f"leadline: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
