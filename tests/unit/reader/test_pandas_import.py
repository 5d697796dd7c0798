"""Whether pyarrow imports pandas, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from leadline.testing.runs import Capture, RunWriter

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


def test_commands_that_import_pyarrow_late_skip_it_too(tmp_path: Path) -> None:
    RunWriter(tmp_path / "run").write_all([Capture(step, {"loss": {"value": 1.0}}) for step in range(5)]).end()
    command = [sys.executable, "-X", "importtime", "-m", "leadline"]
    environment = {**os.environ, "LEADLINE_ROOT": str(tmp_path)}
    report = subprocess.run(
        [*command, "report", "run"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    imports = tmp_path / "imports"  # more than a pipe takes
    with (
        imports.open("w") as log,
        subprocess.Popen(
            [*command, "ui", str(tmp_path), "--port", "0", "--no-token"], stdout=subprocess.PIPE, stderr=log, text=True
        ) as dashboard,
    ):
        assert dashboard.stdout is not None
        (address,) = re.findall(r"http://\S+:\d+", dashboard.stdout.readline())
        with urllib.request.urlopen(f"{address}/runs/run/overview") as page:
            assert page.status == 200
        dashboard.terminate()
        dashboard.communicate()
    for imported in (report.stderr, imports.read_text()):
        assert "pyarrow.lib" in imported
        assert "pandas.core" not in imported
