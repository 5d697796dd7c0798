"""Files of runs from elsewhere: what a name leads to."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.store.documents import read_document
from leadline.store.run_files import open_regular
from leadline.store.run_state import read_rule


def test_a_file_whose_name_is_too_long_does_not_exist(tmp_path: Path) -> None:
    path = str(tmp_path / ("A" * 100_000) / "status.json")
    with pytest.raises(FileNotFoundError) as error:
        open_regular(path)
    assert len(str(error.value)) < 200
    assert read_document(path) is None
    assert read_rule(str(tmp_path), "A" * 100_000) == read_rule(str(tmp_path), "no-such-rule")
