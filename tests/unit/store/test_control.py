"""Control requests and acknowledgements."""

from __future__ import annotations

from pathlib import Path

from leadline.records.request import Acknowledgement, Request
from leadline.store.control import (
    new_request_id,
    read_acknowledgements,
    read_requests,
    write_acknowledgement,
    write_request,
)


def test_requests_are_read_in_the_order_of_creation(tmp_path: Path) -> None:
    requests = [Request(id=new_request_id(), kind="stop", step=step) for step in range(5)]
    for request in reversed(requests):
        write_request(str(tmp_path), request)
    assert read_requests(str(tmp_path)) == requests


def test_invalid_files_hide_no_request(tmp_path: Path) -> None:
    request = Request(id=new_request_id(), kind="stop")
    write_request(str(tmp_path), request)
    for name, text in (("0.json", "[]"), ("1.json", '{"id": "1", "kin'), ("2.json", '{"foo": 1}'), ("x.part", "{}")):
        (tmp_path / "control" / name).write_text(text)
    assert read_requests(str(tmp_path)) == [request]


def test_acknowledgements(tmp_path: Path) -> None:
    acknowledgement = Acknowledgement("1", "rank0-1", 7, 99)
    write_acknowledgement(str(tmp_path), acknowledgement)
    assert read_acknowledgements(str(tmp_path)) == [acknowledgement]
    assert read_requests(str(tmp_path)) == []
