"""Identification of the processes of a job."""

from __future__ import annotations

from pathlib import Path

import pytest
from proc_tree import FakeProc

from leadline.monitor.processes import ProcessStat, ProcessTree, children_first, identify, read_stat

AGENT = 100


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0)
    fake.put(AGENT, 1)
    (tmp_path / "proc" / "meminfo").write_text("")
    return fake


def launched(proc: FakeProc) -> ProcessTree:
    return ProcessTree(subreaper=AGENT, excluded={AGENT}, proc=proc.path)


def pids(stats: list[ProcessStat]) -> set[int]:
    return {stat.pid for stat in stats}


def test_a_name_with_spaces_and_parentheses(proc: FakeProc) -> None:
    proc.put(7, 1, name="a) R 9 (b", ticks=5, threads=3, start=44, rss=12)
    stat = read_stat(7, proc.path)
    assert stat == ProcessStat(7, "S", 1, 1, 5, 3, 44, 12)


def test_no_such_process(proc: FakeProc) -> None:
    assert read_stat(8, proc.path) is None
    assert identify(8, proc.path) is None


def test_a_zombie_is_no_running_process(proc: FakeProc) -> None:
    proc.put(7, 1, state="Z")
    assert identify(7, proc.path) is None


def test_descendants_belong_and_others_do_not(proc: FakeProc) -> None:
    proc.put(110, AGENT)
    proc.put(111, 110)
    proc.put(112, 111)
    proc.put(50, 1)
    proc.put(51, 50)
    assert pids(launched(proc).rescan()) == {110, 111, 112}


def test_a_child_with_a_smaller_pid_than_its_parent(proc: FakeProc) -> None:
    proc.put(300, AGENT)
    proc.put(20, 300)
    assert pids(launched(proc).rescan()) == {300, 20}


def test_later_processes_are_found_by_a_rescan_only(proc: FakeProc) -> None:
    proc.put(110, AGENT)
    tree = launched(proc)
    tree.rescan()
    proc.put(111, 110)
    assert pids(tree.refresh()) == {110}
    assert pids(tree.rescan()) == {110, 111}


def test_an_orphan_stays_known(proc: FakeProc) -> None:
    proc.put(110, AGENT)
    proc.put(111, 110)
    tree = launched(proc)
    tree.rescan()
    proc.drop(110)
    proc.put(111, AGENT)
    assert pids(tree.rescan()) == {111}


def test_an_orphan_whose_parent_ended_unseen_is_checked_again(proc: FakeProc) -> None:
    tree = launched(proc)
    proc.put(111, 110)  # 110 has just ended, the adoption is not done yet
    assert pids(tree.rescan()) == set()
    proc.put(111, AGENT)
    assert pids(tree.rescan()) == {111}


def test_the_judge_and_its_processes_are_excluded(proc: FakeProc) -> None:
    proc.put(110, AGENT)
    proc.put(120, AGENT, session=120)
    proc.put(121, 120, session=120)
    tree = launched(proc)
    tree.foreign_sessions = {120}
    assert pids(tree.rescan()) == {110}


def test_a_reused_pid_is_not_part_of_the_job(proc: FakeProc) -> None:
    proc.put(110, AGENT, start=5)
    tree = launched(proc)
    tree.rescan()
    proc.put(110, 1, start=9)
    assert tree.refresh() == []
    assert tree.rescan() == []


def test_an_attached_agent_below_the_target_is_excluded(proc: FakeProc) -> None:
    proc.put(60, 1, start=6)
    proc.put(61, 60)
    proc.put(AGENT, 60)
    proc.put(120, AGENT, session=120)
    tree = ProcessTree(first={(60, 6)}, excluded={AGENT}, proc=proc.path)
    assert pids(tree.rescan()) == {60, 61}


def test_a_pid_with_another_start_is_not_the_target(proc: FakeProc) -> None:
    proc.put(60, 1, start=7)
    assert ProcessTree(first={(60, 6)}, proc=proc.path).rescan() == []


def test_only_new_processes_are_read(proc: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    proc.put(110, AGENT)
    for pid in range(200, 230):
        proc.put(pid, 1)
    tree = launched(proc)
    tree.rescan()
    read: list[int] = []

    def note(pid: int, root: str) -> ProcessStat | None:
        read.append(pid)
        return read_stat(pid, root)

    monkeypatch.setattr("leadline.monitor.processes.read_stat", note)
    proc.put(231, 1)
    tree.rescan()
    assert read == [110, 231]


def test_children_precede_parents(proc: FakeProc) -> None:
    for pid, parent in ((110, AGENT), (111, 110), (112, 111), (113, 110)):
        proc.put(pid, parent)
    order = [stat.pid for stat in children_first(launched(proc).rescan())]
    assert order[0] == 112
    assert order[-1] == 110
