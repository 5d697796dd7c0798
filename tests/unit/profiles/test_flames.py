"""Reconstruction of calls from pyinstrument samples."""

from __future__ import annotations

from leadline.profiles.python_profiles import _flames

MS = 1_000_000
THREAD = "MainThread\0<thread>\x0017"


def frame(name: str, line: int = 1, at: int = 1) -> str:
    return f"{name}\0f.py\0{line}\x01l{at}"


def test_calls_last_as_long_as_they_are_sampled() -> None:
    main, inner, other = frame("main"), frame("inner"), frame("other")
    records = [
        ([THREAD, main, inner], 0.001),
        ([THREAD, frame("main", at=9), inner], 0.002),
        ([THREAD, main, other], 0.001),
        ([THREAD, main], 0.004),
    ]
    found = _flames(records, 100 * MS)
    assert [(each.function, (each.start_ns - 100 * MS) / MS, each.duration_ns / MS) for each in found] == [
        ("main", 0, 8),
        ("inner", 0, 3),
        ("other", 3, 1),
    ]
    assert (found[0].file, found[0].line) == ("f.py", 1)


def test_a_recursive_function_has_two_calls() -> None:
    again = frame("again")
    found = _flames([([THREAD, again], 0.001), ([THREAD, again, again], 0.001)], 0)
    assert [(each.function, each.start_ns, each.duration_ns) for each in found] == [
        ("again", 0, 2 * MS),
        ("again", MS, MS),
    ]


def test_without_samples_there_are_no_calls() -> None:
    assert _flames([], 0) == []
