"""The inbox returns every request once, also if two changes have the same modification time."""

from __future__ import annotations

import os
from pathlib import Path

from leadline.agent.control_inbox import ControlInbox
from leadline.records.request import Request
from leadline.store import control, layout


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def make(tmp_path: Path) -> tuple[ControlInbox, Clock, list[str]]:
    (tmp_path / layout.CONTROL).mkdir()
    clock, complaints = Clock(), list[str]()
    return ControlInbox(str(tmp_path), complaints.append, clock=clock), clock, complaints


def ids(inbox: ControlInbox) -> list[str]:
    return [each.id for each in inbox.take()]


def test_every_request_is_returned_once_oldest_first(tmp_path: Path) -> None:
    inbox, _, complaints = make(tmp_path)
    for name in ("2", "1"):
        control.write_request(str(tmp_path), Request(name, "stop"))
    assert ids(inbox) == ["1", "2"]
    assert ids(inbox) == []
    control.write_request(str(tmp_path), Request("3", "stop"))
    assert ids(inbox) == ["3"]
    assert complaints == []


def test_a_second_change_within_one_tick_is_detected(tmp_path: Path) -> None:
    inbox, clock, _ = make(tmp_path)
    folder = tmp_path / layout.CONTROL
    control.write_request(str(tmp_path), Request("1", "stop"))
    times = (folder.stat().st_atime_ns, folder.stat().st_mtime_ns)
    assert ids(inbox) == ["1"]
    control.write_request(str(tmp_path), Request("2", "stop"))
    os.utime(folder, ns=times)
    assert ids(inbox) == []
    clock.now = 0.3
    assert ids(inbox) == ["2"]


def test_a_request_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    inbox, clock, complaints = make(tmp_path)
    (tmp_path / layout.CONTROL / "9.json").write_text('{"no": "request"}')
    assert ids(inbox) == []
    assert complaints == [str(tmp_path / layout.CONTROL / "9.json")]
    clock.now = 1.0
    (tmp_path / layout.CONTROL / "9.json").unlink()
    (tmp_path / layout.CONTROL).rmdir()
    assert ids(inbox) == []


def test_a_path_that_is_not_a_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / layout.CONTROL).write_text("")
    complaints: list[str] = []
    assert ids(ControlInbox(str(tmp_path), complaints.append)) == []
    assert len(complaints) == 1
