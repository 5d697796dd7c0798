"""The doctor's checks of the machine, on made-up files."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.cli import environment


def group(root: Path, name: str, **limits: str) -> None:
    folder = root / name if name else root
    folder.mkdir(parents=True, exist_ok=True)
    for key, value in limits.items():
        (folder / key.replace("_", ".")).write_text(value + "\n")


def test_the_lowest_limit_above_us_counts(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/job/step\n")
    root = tmp_path / "cgroup"
    group(root, "job", memory_max="1000000", cpu_max="150000 100000")
    group(root, "job/step", memory_max="max", cpu_max="max 100000")
    limits = [each.said for each in environment._limits(str(root), str(own))]
    assert limits[0] == "at most 1.0 MB of memory for all processes together"
    assert limits[1:] == [] or limits[1].startswith("at most 1.5 of ")


def test_no_limit_is_no_line(tmp_path: Path) -> None:
    assert list(environment._limits(str(tmp_path), str(tmp_path / "none"))) == []


def test_the_file_system_is_that_of_the_longest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/a / ext4 rw 0 0\nserver:/x /data nfs4 rw 0 0\nnone /data/my\\040own tmpfs rw 0 0\n")
    assert environment._file_system("/home", str(mounts)) == "ext4"
    assert environment._file_system("/data/runs", str(mounts)) == "nfs4"
    assert environment._file_system("/data/my own/runs", str(mounts)) == "tmpfs"
    assert environment._file_system("/database", str(mounts)) == "ext4"


@pytest.mark.parametrize(
    ("found", "name", "outcome", "part"),
    [
        ({"error": "no such file"}, "python", "bad", "does not answer"),
        ({"python": "3.6.1", "leadline_error": "ImportError: x"}, "leadline", "bad", "-m pip install leadline"),
        ({"python": "3.12.0", "leadline": "0.0.1"}, "leadline", "note", "install one version in both"),
    ],
)
def test_an_interpreter_that_will_not_do(found: dict[str, str], name: str, outcome: str, part: str) -> None:
    last = list(environment._interpreter("/x/python", found, None))[-1]
    assert (last.name, last.outcome) == (name, outcome)
    assert part in last.said


def test_an_old_numpy_is_refused() -> None:
    checks = list(environment._frameworks("p", {"numpy": "1.22.4", "torch": None}, is_run_anyway=False))
    assert [(each.name, each.outcome) for each in checks] == [("numpy", "bad"), ("torch", "note")]
