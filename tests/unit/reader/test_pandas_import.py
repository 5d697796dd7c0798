"""Whether pyarrow imports pandas, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

CONVERT = "import pyarrow as pa, sys; pa.array([1]); print('pandas' in sys.modules)"
SKIP = "from leadline.reader.pandas_import import skip_pandas_import; skip_pandas_import()"
USE = """
import pandas as pd
print(pa.table({"a": [1, 2]}).to_pandas()["a"].tolist(), pa.array(pd.Series(["x"], dtype="category")).type.index_type)
"""


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        (CONVERT, "True\n"),
        (f"{SKIP}\n{CONVERT}", "False\n"),
        (f"{SKIP}\n{CONVERT}\n{USE}", "False\n[1, 2] int8\n"),
        (f"import pandas\n{SKIP}\n{CONVERT}\n{USE}", "True\n[1, 2] int8\n"),
    ],
    ids=["as usual", "skipped", "imported later", "imported before"],
)
def test_an_import_of_pandas_is_skipped_and_still_possible(code: str, printed: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == printed
