"""Small documents: atomic replacement, incomplete lines, and rewriting in place."""

from __future__ import annotations

import json
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from leadline.store.documents import (
    InPlaceDocument,
    append_line,
    read_document,
    read_lines,
    replace_file,
    write_document,
)

WRITERS = 8
"""The number of threads that write in each process."""
WRITES = 40


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


def _write_often(path: str, writer: int) -> None:
    for count in range(WRITES):
        write_document(path, {"writer": writer, "count": count, "padding": "x" * 5000 * writer})


def _write_from_threads(path: str, first: int) -> None:
    with ThreadPoolExecutor(WRITERS) as threads:
        for done in [threads.submit(_write_often, path, first + number) for number in range(WRITERS)]:
            done.result()


def test_threads_and_processes_replace_a_document_at_the_same_time(tmp_path: Path) -> None:
    path = str(tmp_path / "summary.json")
    write_document(path, {"writer": -1, "count": 0, "padding": ""})
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(3, mp_context=spawning) as processes:
        writing = [processes.submit(_write_from_threads, path, WRITERS * number) for number in range(3)]
        while not all(done.done() for done in writing):
            document = json.loads(Path(path).read_bytes())
            assert len(document["padding"]) == 5000 * max(0, document["writer"])
        for done in writing:
            done.result()
    assert read_document(path)["count"] == WRITES - 1
    assert os.listdir(tmp_path) == ["summary.json"]


class Ended(BaseException):
    """What the handler of a signal raises."""


def test_a_signal_that_arrives_when_the_document_is_complete_is_no_failed_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace_and_end(temporary: str, path: str) -> None:
        os.rename(temporary, path)
        raise Ended

    monkeypatch.setattr("leadline.store.documents.os.replace", replace_and_end)
    path = str(tmp_path / "summary.json")
    with pytest.raises(Ended):
        write_document(path, {"a": 1})
    assert read_document(path) == {"a": 1}
    assert os.listdir(tmp_path) == ["summary.json"]


def test_unfinished_files_are_recognized_by_their_suffix(tmp_path: Path) -> None:
    with replace_file(str(tmp_path / "a.json")) as file:
        (name,) = os.listdir(tmp_path)
        assert name.startswith("a.json.")
        assert name.endswith(".part")
        file.write(b"1")
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_document_whose_folder_was_removed_is_reported_as_such(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_document(str(tmp_path / "gone" / "a.json"), 1)


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


def test_a_lone_surrogate_is_written_out(tmp_path: Path) -> None:
    write_document(str(tmp_path / "a.json"), {"\ud800name": "caf\u00e9 \udfff"})
    assert read_document(str(tmp_path / "a.json")) == {"\\ud800name": "caf\u00e9 \\udfff"}
