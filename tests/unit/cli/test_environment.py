"""The environment checks of ``leadline doctor``, on synthetic files."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.cli import environment


def group(root: Path, name: str, **limits: str) -> None:
    folder = root / name if name else root
    folder.mkdir(parents=True, exist_ok=True)
    for key, value in limits.items():
        (folder / key.replace("_", ".")).write_text(value + "\n")


def test_the_lowest_limit_of_all_parents_applies(tmp_path: Path) -> None:
    membership = tmp_path / "cgroup-of-self"
    membership.write_text("0::/job/step\n")
    root = tmp_path / "cgroup"
    group(root, "job", memory_max="1000000", cpu_max="150000 100000")
    group(root, "job/step", memory_max="max", cpu_max="max 100000")
    limits = [check.message for check in environment._limits(str(root), str(membership))]
    assert limits[0] == "memory of all processes is limited to 1.0 MB"
    assert limits[1:] == [] or limits[1].startswith("CPU is limited to 1.5 of ")


def test_no_line_without_limits(tmp_path: Path) -> None:
    assert list(environment._limits(str(tmp_path), str(tmp_path / "none"))) == []


def test_the_file_system_is_that_of_the_longest_mount_point(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/a / ext4 rw 0 0\nserver:/x /data nfs4 rw 0 0\nnone /data/my\\040own tmpfs rw 0 0\n")
    assert environment._file_system("/home", str(mounts)) == "ext4"
    assert environment._file_system("/data/runs", str(mounts)) == "nfs4"
    assert environment._file_system("/data/my own/runs", str(mounts)) == "tmpfs"
    assert environment._file_system("/database", str(mounts)) == "ext4"


@pytest.mark.parametrize(
    ("probe", "name", "outcome", "part"),
    [
        ({"error": "no such file"}, "python", "bad", "does not run"),
        ({"python": "3.6.1", "leadline_error": "ImportError: x"}, "leadline", "bad", "-m pip install leadline"),
        ({"python": "3.12.0", "leadline": "0.0.1"}, "leadline", "note", "install the same version in both"),
    ],
)
def test_unsuitable_interpreters(probe: dict[str, str], name: str, outcome: str, part: str) -> None:
    last = list(environment._interpreter("/x/python", probe, None))[-1]
    assert (last.name, last.outcome) == (name, outcome)
    assert part in last.message


def test_an_old_numpy_is_refused() -> None:
    checks = list(environment._frameworks("p", {"numpy": "1.22.4", "torch": None}, is_run_anyway=False))
    assert [(check.name, check.outcome) for check in checks] == [("numpy", "bad"), ("torch", "note")]
