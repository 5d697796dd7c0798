"""Tracebacks of scripts: Leadline's frames are not in them, unless the error is Leadline's."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import leadline
from leadline.instrumentation.own_frames import hide_own_frames, show_own_frames, without_own_frames


def functions_in(*path: str) -> dict[str, Callable[..., Any]]:
    """Return functions whose frames are in a file of Leadline."""
    file = os.path.join(os.path.dirname(leadline.__file__), *path)
    functions: dict[str, Callable[..., Any]] = {}
    code = "def passes(function): return function()\ndef raises(): raise KeyError('ours')"
    exec(compile(code, file, "exec"), functions)
    return functions


PATCHED, INTERFACE = functions_in("frameworks", "patched.py"), functions_in("interface.py")


def script() -> None:
    PATCHED["passes"](lambda: PATCHED["passes"](library))


def library() -> None:
    try:
        PATCHED["passes"](lambda: {}["missing"])
    except KeyError as error:
        raise ValueError("no such option") from error


def failed(function: Callable[[], object]) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        function()
    return caught.value


def test_only_frames_of_others_are_left() -> None:
    error = failed(script)
    before = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    after = [frame.name for frame in traceback.extract_tb(without_own_frames(error.__traceback__))]
    assert before[1:] == ["script", "passes", "<lambda>", "passes", "library"]
    assert after[1:] == ["script", "<lambda>", "library"]


def test_an_error_of_ours_keeps_its_frames() -> None:
    error = failed(lambda: INTERFACE["passes"](INTERFACE["raises"]))
    names = [frame.name for frame in traceback.extract_tb(without_own_frames(error.__traceback__))]
    assert names[1:] == ["<lambda>", "passes", "raises"]


def test_frames_that_a_framework_has_hidden_are_not_taken_for_an_error_of_ours() -> None:
    error = failed(lambda: PATCHED["passes"](PATCHED["raises"]))  # as if Keras had removed what ``passes`` calls
    names = [frame.name for frame in traceback.extract_tb(without_own_frames(error.__traceback__))]
    assert names[1:] == ["<lambda>"]


def test_what_python_prints(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    hide_own_frames()
    error = failed(script)
    sys.excepthook(type(error), error, error.__traceback__)
    printed = capsys.readouterr().err
    assert "patched.py" not in printed
    assert "KeyError: 'missing'" in printed
    assert printed.rstrip().endswith("ValueError: no such option")
    show_own_frames()
    assert sys.excepthook is sys.__excepthook__


def test_another_hook_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_the_script(*error: object) -> None: ...

    monkeypatch.setattr(sys, "excepthook", of_the_script)
    hide_own_frames()
    assert sys.excepthook is of_the_script
