"""The terminal lines: plain where nobody looks, and no reason to fail."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios

import pytest

from leadline.agent.terminal import Terminal


def shown(environment: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    Terminal(theirs, environment).say("found it", "found")
    data = os.read(ours, 1000).decode()
    os.close(ours)
    os.close(theirs)
    return data


def test_colour_in_a_terminal() -> None:
    text = shown({"TERM": "xterm"})
    assert "\x1b[31mfound it\x1b[0m" in text


def test_a_line_that_the_script_has_begun_is_left_alone() -> None:
    """From column 0 the blanks are taken back, from anywhere else they lead to the next line."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 50, 0, 0))
    Terminal(theirs, {"TERM": "dumb"}).say("x")
    assert os.read(ours, 1000) == b" " * 49 + b"\r\x1b[Kleadline  x\r\n"
    assert Terminal(theirs, {}).width == 50
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_it_is_not_wanted(environment: dict[str, str]) -> None:
    assert "leadline  found it" in shown(environment)


def test_plain_in_a_pipe() -> None:
    read, write = os.pipe()
    Terminal(write, {}).say("found it", "found")
    assert os.read(read, 1000) == b"leadline  found it\n"
    os.close(read)
    os.close(write)


def test_a_reader_that_is_gone_or_a_closed_descriptor_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    Terminal(write, {}).say("nobody hears")
    os.close(write)
    Terminal(write, {}).say("nowhere")
