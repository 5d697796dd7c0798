"""Numbers that a script prints, with real tqdm: captured, listed as printed, and not altered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from launching import LEADLINE, environment, finish, script

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "loggers" / "bin" / "python")
METRICS = """[metrics]
"test accuracy" = "test images: ([0-9.]+ %)"
"""


@pytest.mark.slow
def test_numbers_are_captured_and_nothing_is_altered(tmp_path: Path) -> None:
    (tmp_path / "leadline.toml").write_text(METRICS)
    job = [PYTHON, script("printed_numbers.py")]
    bare = finish([*job, str(tmp_path / "bare")], tmp_path, env=environment())
    words = [PYTHON, *LEADLINE[1:], "run", "--out", str(tmp_path / "runs"), "--preset", "light", "--", *job]
    ended = finish([*words, str(tmp_path / "watched")], tmp_path, env=environment())
    assert (bare.status, ended.status) == (0, 0), ended.err
    digest, accuracy = (tmp_path / "watched").read_text().split()
    assert (tmp_path / "bare").read_text() == f"{digest} {accuracy}"
    assert bare.out == ended.out
    run = ended.run
    printed = {
        name: [(row["mode"], row["value"]) for row in run.scalars(name).to_pylist()]
        for name in run.tensor_names(collection="printed")
    }
    assert printed.keys() == {"recall", "test accuracy", "val acc"}
    assert printed["recall"] == [("train", 0.5)] * 12
    assert printed["val acc"][-1] == ("eval", float(accuracy))
    assert [value for _, value in printed["test accuracy"]] == pytest.approx(
        [value for _, value in printed["val acc"]], abs=6e-4
    )
    (document,) = run.worker_documents().values()
    assert (document.off, document.notes) == (None, ())
    shown = finish([*LEADLINE, "show", str(run.path)], tmp_path, env=environment(COLUMNS="120"))
    assert re.search("val acc +eval printed", shown.out)
