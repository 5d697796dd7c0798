"""Reports stored in a run directory, which are rewritten while the run grows."""

from __future__ import annotations

import os
from typing import Final

from leadline.errors import DamagedRunError, UnknownNameError
from leadline.reader.run import Run
from leadline.reports.html import write, write_whole
from leadline.reports.notebook import build_notebook
from leadline.reports.report import build
from leadline.store import layout
from leadline.store.documents import make_subfolder

PRODUCTS: Final = {"profiling": ("profiling",), "xgboost": ("xgboost",), "report": ("training", "xgboost", "profiling")}
"""The chapters of the products."""


def write_product(path: str, product: str) -> str:
    """Write a report of a run in its current state, with its notebook, into the run directory.

    Args:
        path: The run directory.
        product: ``profiling``, ``xgboost``, or ``report`` for all chapters that apply.
    Returns:
        The path of the HTML page.
    Raises:
        UnknownNameError: There is no such report.
        RunNotFoundError: There is no such run.
        MissingExtraError: A library for rendering is not installed.
        DamagedRunError: The reports folder of the run is a symbolic link.
    """
    if product not in PRODUCTS:
        raise UnknownNameError("report", product, PRODUCTS)
    folder = os.path.join(path, layout.REPORTS)
    if os.path.islink(folder):
        raise DamagedRunError(f"{folder} is a symbolic link, which is not followed; replace it by a folder")
    report = build(Run(path), PRODUCTS[product])
    make_subfolder(folder)
    page = os.path.join(path, layout.report_page(product))
    write_whole(os.path.join(path, layout.report_notebook(product)), build_notebook(report, path))
    write(report, page)
    return page
