"""Conversion of Arrow tables to data frames of other libraries, which are imported only when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leadline.errors import MissingExtraError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return a table as a data frame of pandas.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    try:
        import pandas  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("to_pandas() needs pandas; install it with: pip install pandas") from error
    return table.to_pandas()


def to_polars(table: pa.Table) -> pl.DataFrame:
    """Return a table as a data frame of Polars.

    Raises:
        MissingExtraError: Polars is not installed.
    """
    try:
        import polars
    except ImportError as error:
        raise MissingExtraError("to_polars() needs Polars; install it with: pip install polars") from error
    return polars.from_arrow(table)
