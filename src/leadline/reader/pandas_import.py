"""pyarrow's import of pandas, which the processes of Leadline do without."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any, Final

import pyarrow as pa

_PANDAS: Final = "pandas"


class _NoPandas(MetaPathFinder):
    """Finds every module but pandas."""

    def find_spec(self, name: str, *_: Any) -> None:
        """Leave a module to the finders that follow."""
        if name == _PANDAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def skip_pandas_import() -> None:
    """Save the time and the memory that an import of pandas takes; called in our own processes alone.

    At its first conversion of any values, pyarrow imports pandas if it is installed, to recognize data frames. Here
    that first conversion finds none. ``import pandas`` and ``Table.to_pandas`` still work.
    """
    if _PANDAS in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
