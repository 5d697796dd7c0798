"""The terminal lines: plain when piped, and never a reason to fail."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
from pathlib import Path

import pytest

from leadline.agent.terminal import Terminal


def shown(environment: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    Terminal(theirs, environment).message("found it", "finding")
    data = os.read(ours, 1000).decode()
    os.close(ours)
    os.close(theirs)
    return data


def test_color_in_a_terminal() -> None:
    text = shown({"TERM": "xterm"})
    assert "\x1b[31mfound it\x1b[0m" in text


def test_an_unfinished_line_of_the_script_is_kept() -> None:
    """From column 0 the blanks are erased, from any other column they lead to the next line."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 50, 0, 0))
    Terminal(theirs, {"TERM": "dumb"}).message("x")
    assert os.read(ours, 1000) == b" " * 49 + b"\r\x1b[Kleadline  x\r\n"
    assert Terminal(theirs, {}).width == 50
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_color_if_disabled(environment: dict[str, str]) -> None:
    assert "leadline  found it" in shown(environment)


def test_plain_in_a_pipe() -> None:
    read, write = os.pipe()
    Terminal(write, {}).message("found it", "finding")
    assert os.read(read, 1000) == b"leadline  found it\n"
    os.close(read)
    os.close(write)


def test_a_reader_that_is_gone_or_a_closed_descriptor_is_not_an_error() -> None:
    read, write = os.pipe()
    os.close(read)
    Terminal(write, {}).message("no reader")
    os.close(write)
    Terminal(write, {}).message("nowhere")


def test_in_a_file_a_line_begins_after_the_unfinished_one_of_a_progress_bar(tmp_path: Path) -> None:
    with open(tmp_path / "log", "ab", buffering=0) as log:
        terminal = Terminal(log.fileno(), {})
        terminal.message("one")
        terminal.message("two")
        log.write(b"\repoch 0:   0%|   | 0/38")
        terminal.write(["leadline  three", "  more"])
    lines = (tmp_path / "log").read_bytes().split(b"\n")
    assert lines == [
        b"leadline  one",
        b"leadline  two",
        b"\repoch 0:   0%|   | 0/38",
        b"leadline  three",
        b"  more",
        b"",
    ]
