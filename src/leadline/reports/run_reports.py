"""The reports that lie in a run itself, and are made anew while it grows."""

from __future__ import annotations

import os
from typing import Final

from leadline.errors import DamagedRunError, UnknownNameError
from leadline.reader.run import Run
from leadline.reports.html import write, write_whole
from leadline.reports.notebook import build_notebook
from leadline.reports.report import build
from leadline.store import layout
from leadline.store.documents import make_leaf

PRODUCTS: Final = {"profiling": ("profiling",), "xgboost": ("xgboost",), "report": ("training", "xgboost", "profiling")}
"""The chapters of each."""


def print_product(path: str, product: str) -> str:
    """Make a report of a run as it stands, with its notebook, and put both into the run.

    Args:
        path: The run's folder.
        product: ``profiling``, ``xgboost``, or ``report`` for all that applies.
    Returns:
        Where the page lies.
    Raises:
        UnknownNameError: There is no such report.
        RunNotFoundError: There is no run there.
        MissingExtraError: What draws it is not installed.
        DamagedRunError: The run's folder of reports is a link to elsewhere.
    """
    if product not in PRODUCTS:
        raise UnknownNameError("report", product, PRODUCTS)
    folder = os.path.join(path, layout.REPORTS)
    if os.path.islink(folder):
        raise DamagedRunError(f"{folder} is a link, and nothing is written through it; put a folder there")
    report = build(Run(path), PRODUCTS[product])
    make_leaf(folder)
    page = os.path.join(path, layout.report_page(product))
    write_whole(os.path.join(path, layout.report_notebook(product)), build_notebook(report, path))
    write(report, page)
    return page
