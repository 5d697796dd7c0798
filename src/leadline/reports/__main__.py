"""``python -m leadline.reports RUN PRODUCT``: write a report into a run, in a process that ends with its parent."""

from __future__ import annotations

import os
import sys
from typing import Final

from leadline.errors import LeadlineError
from leadline.process.messages import become_worker

_NICE: Final = 15
"""Niceness, so that the training has priority."""


def main() -> int:
    """Write the report into the run; an error is one line on standard error."""
    run, product = sys.argv[1:]
    become_worker()
    os.nice(max(0, _NICE - os.nice(0)))
    try:
        from leadline.reader.pandas_import import skip_pandas_import
        from leadline.reports.files import write_product

        skip_pandas_import()
        write_product(run, product)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"leadline: reports need {error.name}; install it with: pip install 'leadline[ui]'\n")
        return 2
    except (LeadlineError, OSError) as error:
        sys.stderr.write(f"leadline: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
