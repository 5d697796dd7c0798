"""Limits of control groups v1 and v2 with fake files, and utilization relative to them."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from leadline.monitor.cgroup import CgroupLimits, CpuLimit, MemoryLimit, read_limits
from leadline.monitor.cpu import CpuSampler
from leadline.monitor.memory import MemorySampler

GIB = 1 << 30


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")
    return folder


def limits(tmp_path: Path, own: str) -> CgroupLimits:
    write(tmp_path / "proc" / "self", cgroup=own)
    return read_limits(str(tmp_path / "proc"), str(tmp_path / "cgroup"))


def test_cgroup_v2(tmp_path: Path) -> None:
    write(
        tmp_path / "cgroup/pod/container",
        cpu__max="200000 100000",
        cpu__stat="usage_usec 3500000\nuser_usec 1",
        memory__max=str(4 * GIB),
        memory__current=str(3 * GIB),
        memory__stat=f"anon 5\ninactive_file {GIB}",
    )
    result = limits(tmp_path, "0::/pod/container")
    assert result.cpu is not None
    assert result.memory is not None
    assert (result.cpu.cores, result.cpu.used_seconds()) == (2.0, 3.5)
    assert (result.memory.limit_bytes, result.memory.used_bytes()) == (4 * GIB, 2 * GIB)


def test_the_strictest_limit_of_a_group_and_its_parents_applies(tmp_path: Path) -> None:
    write(tmp_path / "cgroup/pod", cpu__max="150000 100000", cpu__stat="usage_usec 9", memory__max=str(GIB))
    write(tmp_path / "cgroup/pod/container", cpu__max="400000 100000", memory__max=str(4 * GIB))
    write(tmp_path / "cgroup/pod/container/own", cpu__max="max 100000", memory__max="max")
    result = limits(tmp_path, "0::/pod/container/own")
    assert result.cpu is not None
    assert result.memory is not None
    assert (result.cpu.cores, result.memory.limit_bytes) == (1.5, GIB)


def test_the_own_path_may_be_missing_in_a_container(tmp_path: Path) -> None:
    write(tmp_path / "cgroup", cpu__max="100000 100000")
    result = limits(tmp_path, "0::/system.slice/docker-abc.scope")
    assert result.cpu is not None
    assert result.cpu.cores == 1.0


def test_cgroup_v1(tmp_path: Path) -> None:
    write(tmp_path / "cgroup/cpu/job", cpu__cfs_quota_us="250000", cpu__cfs_period_us="100000")
    write(tmp_path / "cgroup/cpuacct/job", cpuacct__usage="1500000000")
    write(
        tmp_path / "cgroup/memory/job",
        memory__limit_in_bytes=str(2 * GIB),
        memory__usage_in_bytes=str(GIB),
        memory__stat="total_inactive_file 24",
    )
    result = limits(tmp_path, "4:memory:/job\n2:cpuacct:/job\n1:cpu:/job\n0::/")
    assert result.cpu is not None
    assert result.memory is not None
    assert (result.cpu.cores, result.cpu.used_seconds()) == (2.5, 1.5)
    assert (result.memory.limit_bytes, result.memory.used_bytes()) == (2 * GIB, GIB - 24)


@pytest.mark.parametrize("own", ["0::/", "1:cpu:/\n4:memory:/", ""])
def test_without_limits_there_are_none(tmp_path: Path, own: str) -> None:
    write(tmp_path / "cgroup", cpu__max="max 100000", memory__max="max")
    write(tmp_path / "cgroup/cpu", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    write(tmp_path / "cgroup/memory", memory__limit_in_bytes=str((1 << 63) - 4096))
    assert limits(tmp_path, own) == CgroupLimits()


class Account:
    """The CPU time used by a group."""

    seconds: float | None = 0.0

    def __call__(self) -> float | None:
        return self.seconds


@pytest.fixture
def four_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    return tmp_path


def tick(proc: Path, *busy: int, second: int) -> None:
    """Write the total busy ticks of each core, at 100 ticks per second."""
    cores = [f"cpu{i} {ticks} 0 0 {100 * second - ticks} 0 0 0 0 0 0" for i, ticks in enumerate(busy)]
    (proc / "stat").write_text("\n".join(["cpu  0 0 0 0 0 0 0 0 0 0", *cores]) + "\n")


def read(sampler: CpuSampler | MemorySampler, now: float) -> dict[str, float | None]:
    values = sampler.sample(now)
    return {
        f"{channel.device}.{channel.metric}": value for channel, value in zip(sampler.channels, values, strict=True)
    }


def test_two_cores_of_a_container_are_a_hundred_percent(four_cores: Path) -> None:
    account = Account()
    sampler = CpuSampler(CpuLimit(2.0, account), allowed=lambda: {0, 1, 2, 3})
    tick(four_cores, 0, 0, 0, 0, second=1)
    assert set(read(sampler, 0.0).values()) == {None}
    tick(four_cores, 100, 100, 50, 0, second=2)
    account.seconds = 2.0
    values = read(sampler, 1.0)
    assert values["total.utilization_percent"] == 100.0
    assert [values[f"core{i}.utilization_percent"] for i in range(4)] == [100.0, 100.0, 50.0, 0.0]
    account.seconds = 2.5
    assert read(sampler, 2.0)["total.utilization_percent"] == 25.0


def test_unreadable_cpu_accounting_is_absent_not_zero(four_cores: Path) -> None:
    account = Account()
    sampler = CpuSampler(CpuLimit(1.0, account), allowed=lambda: {0, 1})
    tick(four_cores, 0, 0, second=1)
    read(sampler, 0.0)
    account.seconds = None
    tick(four_cores, 10, 10, second=2)
    assert read(sampler, 1.0)["total.utilization_percent"] is None
    assert "total.utilization_percent" in sampler.absent


def test_cores_outside_the_affinity_do_not_count(four_cores: Path) -> None:
    sampler = CpuSampler(allowed=lambda: {1, 3})
    tick(four_cores, 0, 0, 0, 0, second=1)
    read(sampler, 0.0)
    tick(four_cores, 0, 100, 0, 100, second=2)
    assert read(sampler, 1.0) == {
        "total.iowait_percent": 0.0,
        "total.utilization_percent": 100.0,
        "core1.utilization_percent": 100.0,
        "core3.utilization_percent": 100.0,
    }


def test_a_quota_larger_than_the_cores_is_ignored(four_cores: Path) -> None:
    sampler = CpuSampler(CpuLimit(8.0, Account()), allowed=lambda: {0, 1})
    tick(four_cores, 0, 0, second=1)
    read(sampler, 0.0)
    tick(four_cores, 100, 0, second=2)
    assert read(sampler, 1.0)["total.utilization_percent"] == 50.0


def test_memory_is_relative_to_the_groups_limit(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(
        "MemTotal: 8388608 kB\nMemAvailable: 524288 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
    )
    values = read(MemorySampler(str(tmp_path), MemoryLimit(4 * GIB, lambda: 3 * GIB)), 0.0)
    assert values["total.used_bytes"] == 3 * GIB
    assert values["total.used_percent"] == 75.0
    assert values["total.available_bytes"] == 0.5 * GIB, "the machine has no more"
    roomy = read(MemorySampler(str(tmp_path), MemoryLimit(16 * GIB, lambda: GIB)), 0.0)
    assert roomy["total.used_bytes"] == 7.5 * GIB, "a limit above the machine's memory is ignored"
