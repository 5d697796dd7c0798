"""The reader of requests returns every request once, also if two changes have the same modification time."""

from __future__ import annotations

import os
from pathlib import Path

from leadline.records.request import Stop
from leadline.store import control, layout
from leadline.store.control import RequestReader

LONG_AGO_NS = 10**18


def make(tmp_path: Path) -> tuple[RequestReader, list[str]]:
    (tmp_path / layout.CONTROL).mkdir()
    complaints = list[str]()
    return RequestReader(str(tmp_path), complaints.append), complaints


def ids(inbox: RequestReader) -> list[str]:
    return [each.id for each in inbox.take()]


def test_every_request_is_returned_once_oldest_first(tmp_path: Path) -> None:
    inbox, complaints = make(tmp_path)
    for name in ("2", "1"):
        control.write_request(str(tmp_path), Stop(name))
    assert ids(inbox) == ["1", "2"]
    assert ids(inbox) == []
    control.write_request(str(tmp_path), Stop("3"))
    assert ids(inbox) == ["3"]
    assert complaints == []


def test_a_second_change_within_one_tick_is_detected(tmp_path: Path) -> None:
    inbox, _ = make(tmp_path)
    folder = tmp_path / layout.CONTROL
    control.write_request(str(tmp_path), Stop("1"))
    times = (folder.stat().st_atime_ns, folder.stat().st_mtime_ns)
    assert ids(inbox) == ["1"]
    control.write_request(str(tmp_path), Stop("2"))
    os.utime(folder, ns=times)
    assert ids(inbox) == ["2"]


def test_skipped_requests_are_not_returned(tmp_path: Path) -> None:
    inbox, _ = make(tmp_path)
    for name in ("1", "2"):
        control.write_request(str(tmp_path), Stop(name))
    inbox.skip(["1"])
    assert ids(inbox) == ["2"]


def test_a_request_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    inbox, complaints = make(tmp_path)
    folder = tmp_path / layout.CONTROL
    (folder / "9.json").write_text('{"no": "request"}')
    os.utime(folder, ns=(LONG_AGO_NS, LONG_AGO_NS))
    assert ids(inbox) == []
    assert ids(inbox) == []
    assert complaints == [str(folder / "9.json")]
    (folder / "9.json").unlink()
    folder.rmdir()
    assert ids(inbox) == []
    assert len(complaints) == 1


def test_a_path_that_is_not_a_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / layout.CONTROL).write_text("")
    complaints: list[str] = []
    assert ids(RequestReader(str(tmp_path), complaints.append)) == []
    assert len(complaints) == 1
