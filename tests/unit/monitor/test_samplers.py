"""The samplers with fake files: present values are correct, missing values absent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from proc_tree import FakeProc

from leadline.monitor.cpu import CpuSampler
from leadline.monitor.disk import DiskSampler
from leadline.monitor.job import JobSampler
from leadline.monitor.memory import MemorySampler
from leadline.monitor.network import NetworkSampler
from leadline.monitor.processes import ProcessTree
from leadline.monitor.sampler import Rate, Sampler


@pytest.fixture
def proc(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "proc"
    folder.mkdir()
    before = psutil.PROCFS_PATH
    psutil.PROCFS_PATH = str(folder)
    yield folder
    psutil.PROCFS_PATH = before


def named(sampler: Sampler, now: float) -> dict[str, float | None]:
    values = sampler.sample(now)
    return {
        f"{channel.device}.{channel.metric}": value for channel, value in zip(sampler.channels, values, strict=True)
    }


def write_cpu(proc: Path, *cores: tuple[int, int, int]) -> None:
    """Write user, idle and iowait ticks of each core."""
    lines = ["cpu  0 0 0 0 0 0 0 0 0 0"]
    lines += [f"cpu{i} {user} 0 0 {idle} {wait} 0 0 0 0 0" for i, (user, idle, wait) in enumerate(cores)]
    (proc / "stat").write_text("\n".join(lines) + "\n")


def test_cpu_shares(proc: Path) -> None:
    sampler = CpuSampler(allowed=lambda: {0, 1})
    write_cpu(proc, (0, 0, 0), (0, 0, 0))
    assert set(named(sampler, 0).values()) == {None}
    write_cpu(proc, (100, 0, 0), (50, 25, 25))
    assert named(sampler, 1) == {
        "total.iowait_percent": 12.5,
        "total.utilization_percent": 75.0,
        "core0.utilization_percent": 100.0,
        "core1.utilization_percent": 50.0,
    }


def test_a_cpu_that_did_not_tick_is_absent(proc: Path) -> None:
    sampler = CpuSampler(allowed=lambda: {0, 1})
    write_cpu(proc, (5, 5, 0))
    sampler.sample(0)
    assert set(sampler.sample(0.001)) == {None}


def test_a_removed_core_changes_the_channels(proc: Path) -> None:
    sampler = CpuSampler(allowed=lambda: {0, 1})
    write_cpu(proc, (0, 0, 0), (0, 0, 0))
    sampler.sample(0)
    before = sampler.channels
    write_cpu(proc, (10, 10, 0))
    sampler.sample(1)
    assert len(sampler.channels) == len(before) - 1


def test_decreasing_idle_counters_stay_within_bounds(proc: Path) -> None:
    sampler = CpuSampler(allowed=lambda: {0, 1})
    write_cpu(proc, (0, 100, 0))
    sampler.sample(0)
    write_cpu(proc, (110, 99, 0))
    assert named(sampler, 1)["core0.utilization_percent"] == 100.0


def write_memory(proc: Path, **sizes: int) -> None:
    (proc / "meminfo").write_text("".join(f"{key}:   {value} kB\n" for key, value in sizes.items()))


def test_memory_and_swap(proc: Path) -> None:
    write_memory(proc, MemTotal=1000, MemFree=300, MemAvailable=400, SwapTotal=100, SwapFree=75)
    assert named(MemorySampler(str(proc)), 0) == {
        "total.used_bytes": 600 * 1024,
        "total.available_bytes": 400 * 1024,
        "total.used_percent": 60.0,
        "swap.used_bytes": 25 * 1024,
    }


def test_a_line_that_is_missing_is_absent_and_not_0(proc: Path) -> None:
    write_memory(proc, MemTotal=1000)
    assert set(named(MemorySampler(str(proc)), 0).values()) == {None}


def write_disks(proc: Path, **disks: tuple[int, int]) -> None:
    """Write the sectors read and written of each device."""
    lines = [f"   8  0 {name} 1 0 {read} 5 1 0 {written} 5 0 0 0" for name, (read, written) in disks.items()]
    (proc / "diskstats").write_text("\n".join(lines) + "\n")


def test_disk_rates_of_physical_disks_only(proc: Path, tmp_path: Path) -> None:
    blocks = tmp_path / "block"
    for name in ("sda", "loop0", "dm-0"):
        (blocks / name).mkdir(parents=True)
    sampler = DiskSampler(str(tmp_path), str(proc), str(blocks))
    write_disks(proc, sda=(0, 0), sda1=(0, 0), **{"dm-0": (0, 0)})
    first = named(sampler, 0)
    assert first["total.read_bytes_per_second"] is None
    assert (first["run.free_bytes"] or 0) > 0
    write_disks(proc, sda=(4, 8), sda1=(4, 8), **{"dm-0": (4, 8)})
    later = named(sampler, 2)
    assert later["total.read_bytes_per_second"] == 4 * 512 / 2
    assert later["total.write_bytes_per_second"] == 8 * 512 / 2
    assert not sampler.absent


def test_no_disk_is_absent_and_not_idle(proc: Path, tmp_path: Path) -> None:
    sampler = DiskSampler(str(tmp_path), str(proc), str(tmp_path / "nothing"))
    for now in (0, 1):
        assert named(sampler, now)["total.read_bytes_per_second"] is None
    assert "cannot be read" in sampler.absent["disk.total"]


def test_the_run_folder_may_disappear(proc: Path, tmp_path: Path) -> None:
    sampler = DiskSampler(str(tmp_path / "gone"), str(proc), str(tmp_path / "nothing"))
    assert named(sampler, 0)["run.free_bytes"] is None


def write_network(proc: Path, **interfaces: tuple[int, int]) -> None:
    (proc / "net").mkdir(exist_ok=True)
    lines = ["Inter-| Receive", " face |bytes"]
    lines += [f" {name}:{got} 0 0 0 0 0 0 0 {sent} 0 0 0 0 0 0 0" for name, (got, sent) in interfaces.items()]
    (proc / "net" / "dev").write_text("\n".join(lines) + "\n")


def test_network_rates_without_loopback(proc: Path) -> None:
    sampler = NetworkSampler(str(proc))
    write_network(proc, lo=(0, 0), eth0=(100, 0), eth1=(0, 0))
    assert set(named(sampler, 0).values()) == {None}
    write_network(proc, lo=(9999, 9999), eth0=(300, 10), eth1=(100, 0))
    assert named(sampler, 1) == {
        "total.received_bytes_per_second": 300.0,
        "total.sent_bytes_per_second": 10.0,
    }


def test_no_network_is_absent(proc: Path) -> None:
    sampler = NetworkSampler(str(proc))
    write_network(proc, lo=(5, 5))
    sampler.sample(0)
    assert set(sampler.sample(1)) == {None}


def test_a_decreasing_counter_has_no_rate() -> None:
    rate = Rate()
    assert rate.per_second(10, 0) is None
    assert rate.per_second(20, 2) == 5.0
    assert rate.per_second(3, 3) is None
    assert rate.per_second(4, 4) == 1.0
    assert rate.per_second(None, 5) is None
    assert rate.per_second(9, 6) is None


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    made = FakeProc(tmp_path / "proc")
    made.put(100, 1)
    made.put(110, 100, ticks=0, threads=2, rss=10)
    made.put(111, 110, ticks=0, threads=3, rss=20)
    return made


def job_sampler(fake: FakeProc) -> JobSampler:
    return JobSampler(ProcessTree(subreaper=100, excluded={100}, proc=fake.path), fake.path)


def test_the_job_is_the_sum_of_its_processes(fake: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_CLK_TCK": 100}[name])
    sampler = job_sampler(fake)
    first = named(sampler, 0)
    assert first["job.cpu_percent"] is None
    assert first["job.rss_bytes"] == 30 * 4096
    assert first["job.process_count"] == 2
    assert first["job.thread_count"] == 5
    fake.put(110, 100, ticks=50)
    fake.put(111, 110, ticks=100)
    assert named(sampler, 1)["job.cpu_percent"] == 150.0


def test_the_past_cpu_time_of_a_new_process_does_not_count(fake: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_CLK_TCK": 100}[name])
    sampler = job_sampler(fake)
    named(sampler, 0)
    fake.put(112, 110, ticks=9000)
    assert named(sampler, 1)["job.process_count"] == 2
    later = named(sampler, 6)
    assert later["job.process_count"] == 3
    assert later["job.cpu_percent"] == 0.0


def test_a_job_that_has_ended_is_absent(fake: FakeProc) -> None:
    sampler = job_sampler(fake)
    named(sampler, 0)
    fake.drop(110)
    fake.drop(111)
    assert set(sampler.sample(1)) == {None}


def test_proportional_memory_every_thirty_seconds(fake: FakeProc) -> None:
    for pid in (110, 111):
        (Path(fake.path) / str(pid) / "smaps_rollup").write_text("head\nRss:  9 kB\nPss:  4 kB\n")
    sampler = job_sampler(fake)
    assert named(sampler, 0)["job.pss_bytes"] == 8 * 1024
    assert named(sampler, 29)["job.pss_bytes"] is None
    assert named(sampler, 30)["job.pss_bytes"] == 8 * 1024
