"""No change of a folder is missed, however fast the changes follow each other; unchanged folders are not listed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from leadline.store.folder_watch import FolderState, FolderTree, FolderWatch

LONG_AGO_NS = 10**18
WRITER = """
import os, sys
for number in range(int(sys.argv[2])):
    open(os.path.join(sys.argv[1], f"{number}.part"), "w").close()
    os.rename(os.path.join(sys.argv[1], f"{number}.part"), os.path.join(sys.argv[1], f"{number}.json"))
"""


def settle(folder: Path) -> None:
    """Let the last change of a folder be old."""
    os.utime(folder, ns=(LONG_AGO_NS, LONG_AGO_NS))


def names(watch: FolderWatch) -> set[str] | None:
    entries = watch.new_entries()
    return None if entries is None else {entry.name for entry in entries}


def wait_until_settled(watches: list[FolderWatch], found: Callable[[int, set[str]], None]) -> None:
    """List the folders until none of them counts as changed."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        listed = [names(watch) for watch in watches]
        for index, entries in enumerate(listed):
            if entries is not None:
                found(index, entries)
        if not any(entries is not None for entries in listed):
            return
    pytest.fail("the folders never settled")


def test_an_old_folder_is_listed_once(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    settle(tmp_path)
    watch = FolderWatch(str(tmp_path))
    assert names(watch) == {"a"}
    assert names(watch) is None
    (tmp_path / "b").touch()
    assert names(watch) == {"a", "b"}


def test_a_change_without_a_new_time_is_detected_within_a_tick(tmp_path: Path) -> None:
    watch = FolderWatch(str(tmp_path))
    now = time.time_ns()
    os.utime(tmp_path, ns=(now, now))
    assert names(watch) == set()
    (tmp_path / "a").touch()
    os.utime(tmp_path, ns=(now, now))
    assert names(watch) == {"a"}


def test_a_time_in_the_future_never_counts_as_settled(tmp_path: Path) -> None:
    """As on a file server whose clock is ahead."""
    watch = FolderWatch(str(tmp_path))
    ahead = time.time_ns() + 3600 * 10**9
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
        os.utime(tmp_path, ns=(ahead, ahead))
        entries = names(watch)
        assert entries is not None
        assert name in entries


def test_a_folder_that_appears_and_disappears(tmp_path: Path) -> None:
    watch = FolderWatch(str(tmp_path / "later"))
    assert names(watch) == set()
    assert names(watch) is None
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "a").touch()
    assert names(watch) == {"a"}
    (tmp_path / "later" / "a").unlink()
    (tmp_path / "later").rmdir()
    assert names(watch) == set()
    assert names(watch) is None


def test_a_folder_that_could_not_be_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").touch()
    settle(tmp_path)
    watch = FolderWatch(str(tmp_path))

    def fail(path: str) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", fail)
        with pytest.raises(OSError, match="Input/output"):
            watch.new_entries()
    assert names(watch) == {"a"}


def test_a_file_in_place_of_a_folder_has_no_entries(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert names(FolderWatch(str(tmp_path / "file"))) == set()


def test_two_changes_in_quick_succession_are_both_seen_in_each_of_many_folders(tmp_path: Path) -> None:
    watches, seen = [], []
    for number in range(400):
        folder = tmp_path / str(number)
        folder.mkdir()
        watch = FolderWatch(str(folder))
        (folder / "first").touch()
        seen.append(names(watch) or set())
        (folder / "second").touch()
        watches.append(watch)
    wait_until_settled(watches, lambda index, entries: seen[index].update(entries))
    assert seen == [{"first", "second"}] * len(watches)


def test_no_file_of_a_fast_writer_is_missed(tmp_path: Path) -> None:
    count, seen = 5000, set[str]()
    watch = FolderWatch(str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(count)]) as writer:
        while writer.poll() is None:
            seen |= names(watch) or set()
    wait_until_settled([watch], lambda index, entries: seen.update(entries))
    assert {name for name in seen if name.endswith(".json")} == {f"{number}.json" for number in range(count)}


def states(tree: FolderTree) -> list[FolderState]:
    return list(tree.states())


def test_a_tree_shows_new_grown_replaced_and_removed_files(tmp_path: Path) -> None:
    tree = FolderTree(str(tmp_path))
    seen = [states(tree)]
    assert states(tree) == seen[-1]
    (tmp_path / "worker" / "deep").mkdir(parents=True)
    for name, text in (("1.arrow", "x"), ("2.arrow", "x"), ("1.arrow", "xy"), ("2.arrow", "xyz"), ("deep/a.log", "x")):
        (tmp_path / "worker" / name).write_text(text)
        seen.append(states(tree))
    (tmp_path / "status.json").write_text("1")
    seen.append(states(tree))
    times = (tmp_path.stat().st_atime_ns, tmp_path.stat().st_mtime_ns)
    (tmp_path / "new").write_text("2")
    (tmp_path / "new").replace(tmp_path / "status.json")
    os.utime(tmp_path, ns=times)  # replaced within one tick
    seen.append(states(tree))
    (tmp_path / "status.json").unlink()
    seen.append(states(tree))
    assert states(tree) == seen[-1]
    assert all(before != after for before, after in pairwise(seen))


def test_a_tree_does_not_list_unchanged_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "worker").mkdir()
    segment = tmp_path / "worker" / "1.arrow"
    segment.write_text("x")
    for folder in (tmp_path / "worker", tmp_path):
        settle(folder)
    tree = FolderTree(str(tmp_path))
    before = states(tree)
    monkeypatch.setattr(os, "scandir", lambda path: pytest.fail(f"{path} was listed"))
    assert states(tree) == before
    with segment.open("a") as file:
        file.write("y")
    assert states(tree) != before


def test_temporary_files_are_no_files_of_a_tree(tmp_path: Path) -> None:
    tree = FolderTree(str(tmp_path))
    before = [(state.files, state.sizes) for state in states(tree)]
    (tmp_path / "1.safetensors.part").write_text("x")
    assert [(state.files, state.sizes) for state in states(tree)] == before
