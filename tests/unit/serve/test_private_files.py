"""Files of a job: private on this machine, and as in a container for who unpacks its model."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.serve.artifacts import readable_member
from leadline.serve.engine import LocalJobEngine
from leadline.serve.job_process import private_member


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.lstat().st_mode & 0o777 for path in folder.rglob("*") if not path.is_symlink()}


def test_the_source_of_a_job_is_unpacked_for_its_user_only(tmp_path: Path) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, mode in (("train.py", 0o644), ("run.sh", 0o755), ("open", 0o777), ("secret", 0o600), ("odd", 0)):
            member = tarfile.TarInfo(name)
            member.mode = mode
            archive.addfile(member)
    os.umask(0o077)  # as in the process of a job
    content.seek(0)
    with tarfile.open(fileobj=content) as archive:
        archive.extractall(tmp_path, filter=private_member)
    assert modes(tmp_path) == {"train.py": 0o600, "run.sh": 0o700, "open": 0o700, "secret": 0o600, "odd": 0o600}


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x"])
def test_no_member_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("in/file"))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, name
        archive.addfile(link)
    content.seek(0)
    with tarfile.open(fileobj=content) as archive, pytest.raises(tarfile.FilterError):
        archive.extractall(tmp_path / "code", filter=private_member)


def test_a_model_is_packed_as_in_a_container(tmp_path: Path) -> None:
    for name, mode in (("model.pt", 0o600), ("serve.sh", 0o700), ("shared", 0o664)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    tmp_path.chmod(0o700)
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.add(tmp_path, arcname=".", filter=readable_member)
    content.seek(0)
    with tarfile.open(fileobj=content) as archive:
        packed = {member.name: member.mode for member in archive}
    assert packed == {".": 0o755, "./model.pt": 0o644, "./serve.sh": 0o755, "./shared": 0o664}


def test_what_a_training_writes_is_private(tmp_path: Path) -> None:
    code = "import os; open('file', 'w').close(); os.mkdir('folder')"
    instance = LocalJobEngine().start([sys.executable, "-I", "-S", "-c", code], os.environ, str(tmp_path), b"")
    while instance.poll() is None:
        pass
    assert modes(tmp_path) == {"file": 0o600, "folder": 0o700}


def test_the_process_of_a_job_writes_private_files(tmp_path: Path) -> None:
    folder = tmp_path / "jobs" / "job"
    folder.mkdir(mode=0o700, parents=True)
    code = "import leadline.serve.job_process as p, os; p.JobProcess = lambda path: open('x', 'w').close() or exit()"
    run = "import runpy, sys; sys.argv = ['serve', '.']; runpy.run_module('leadline.serve', run_name='__main__')"
    subprocess.run([sys.executable, "-c", f"{code}; {run}"], cwd=folder, check=True)
    assert modes(folder) == {"x": 0o600}
