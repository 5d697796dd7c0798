"""``python -m leadline.cli.final_report RUN``: the report of a run that has ended, written into it at low priority."""

from __future__ import annotations

import os
import sys
from typing import Final

import leadline
from leadline.cli.report import build_judged, write_files
from leadline.errors import LeadlineError
from leadline.reader.pandas_import import skip_pandas_import
from leadline.store import layout
from leadline.store.documents import make_subfolder

_NICE: Final = 19


def main(path: str) -> int:
    """Write the report with its notebook; an error is one line on standard error."""
    os.nice(_NICE)
    skip_pandas_import()
    try:
        run = leadline.open_run(path)
        document = build_judged(run)
        make_subfolder(os.path.join(run.path, layout.REPORTS))
        page = os.path.join(run.path, layout.report_page("report"))
        write_files(document, page, run, is_notebook=False, with_notebook=True)
    except (LeadlineError, OSError) as error:
        sys.stderr.write(f"leadline: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
