"""Small documents: atomic replacement, incomplete lines, and rewriting in place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leadline.store.documents import InPlaceDocument, append_line, read_document, read_lines, write_document


def test_replaced_atomically_and_private(tmp_path: Path) -> None:
    path = str(tmp_path / "a.json")
    write_document(path, {"a": 1})
    write_document(path, {"a": [float("nan"), float("inf")], "b": "ü"})
    assert read_document(path) == {"a": ["NaN", "Infinity"], "b": "ü"}
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_failed_write_keeps_the_old_content(tmp_path: Path) -> None:
    path = str(tmp_path / "a.json")
    write_document(path, 1)
    with pytest.raises(TypeError):
        write_document(path, {"a": object()})
    assert read_document(path) == 1
    assert os.listdir(tmp_path) == ["a.json"]


def test_missing_and_incomplete_documents_are_none(tmp_path: Path) -> None:
    assert read_document(str(tmp_path / "a.json")) is None
    (tmp_path / "a.json").write_text('{"a": ')
    assert read_document(str(tmp_path / "a.json")) is None


def test_an_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    path = str(tmp_path / "a.jsonl")
    append_line(path, {"a": 1})
    append_line(path, {"a": 2})
    with open(path, "a") as file:
        file.write('{"a": 3')
    assert read_lines(path) == [{"a": 1}, {"a": 2}]


def test_an_in_place_document_keeps_its_blocks_and_grows_by_pages(tmp_path: Path) -> None:
    path = str(tmp_path / "a.json")
    document = InPlaceDocument(path, {"a": "x" * 9000})
    size = os.stat(path).st_size
    document.write({"a": 1})
    assert os.stat(path).st_size == size
    assert read_document(path) == {"a": 1}
    document.write({"a": "x" * 30_000})
    assert read_document(path) == {"a": "x" * 30_000}
    document.close()
