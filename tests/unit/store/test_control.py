"""Control requests."""

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


def test_requests_are_read_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    made = [Request(id=new_request_id(), kind="stop", step=step) for step in range(5)]
    for each in reversed(made):
        write_request(str(tmp_path), each)
    assert read_requests(str(tmp_path)) == made


def test_what_is_no_request_hides_none(tmp_path: Path) -> None:
    request = Request(id=new_request_id(), kind="stop")
    write_request(str(tmp_path), request)
    for name, text in (("0.json", "[]"), ("1.json", '{"id": "1", "kin'), ("2.json", '{"foo": 1}'), ("x.part", "{}")):
        (tmp_path / "control" / name).write_text(text)
    assert read_requests(str(tmp_path)) == [request]


def test_acknowledgements(tmp_path: Path) -> None:
    taken = Acknowledgement("1", "rank0-1", 7, 99)
    write_acknowledgement(str(tmp_path), taken)
    assert read_acknowledgements(str(tmp_path)) == [taken]
    assert read_requests(str(tmp_path)) == []
