"""The packages of a job: those of ``requirements.txt`` in its source, beside those of the Python of the server."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Callable, Iterator
from typing import Final

from leadline.errors import LeadlineError
from leadline.process.interpreter import users_environment
from leadline.serve.job_folder import JobFolder
from leadline.store.documents import make_folder
from leadline.store.node_lock import acquire_lock, release_lock

NAME: Final = "requirements.txt"
_FOLDER: Final = "environments"
_COMPLETE: Final = "complete"
_LINK: Final = "server.pth"
_LOCAL: Final = (
    ".",
    "/",
    "-e",
    "--editable",
    "file:",
    "-r",
    "-c",
    "--requirement",
    "--constraint",
    "--find-links",
    "-f",
)
_POLL_SECONDS: Final = 0.2


class InstallationError(LeadlineError):
    """The packages cannot be installed: correct ``requirements.txt``, or what the message names."""


class Packages:
    """The environment of a job, which jobs with the same requirements share.

    Args:
        should_stop: Returns whether the job is to be stopped.
    """

    def __init__(self, folder: JobFolder, should_stop: Callable[[], bool]) -> None:
        self._code = folder.in_container("code")
        self._root = os.path.join(os.path.dirname(folder.runs), _FOLDER)
        self._should_stop = should_stop

    def install(self) -> str:
        """Return the Python of the job: that of the server, if there are no requirements.

        Raises:
            InstallationError: A package cannot be installed.
            OSError: A file could not be written.
        """
        path = os.path.join(self._code, NAME)
        if not os.path.isfile(path):
            return sys.executable
        place = os.path.join(self._root, _hash(self._code))
        make_folder(self._root)
        while (lock := acquire_lock(f"{place}.lock")) is None:
            if self._should_stop():
                return sys.executable
            time.sleep(_POLL_SECONDS)
        try:
            if not os.path.exists(os.path.join(place, _COMPLETE)):
                self._create(place, path)
        finally:
            release_lock(lock, f"{place}.lock")
        return os.path.join(place, "bin", "python")

    def _create(self, place: str, path: str) -> None:
        shutil.rmtree(place, ignore_errors=True)
        venv.create(place, symlinks=True)
        python = os.path.join(place, "bin", "python")
        packages = sysconfig.get_path("purelib", vars={"base": place})
        with open(os.path.join(packages, _LINK), "w", encoding="utf-8") as file:
            file.writelines(f"import site; site.addsitedir({folder!r})\n" for folder in _server_packages())
        with open(f"{place}.log", "w+", encoding="utf-8", errors="replace") as log:
            process = subprocess.Popen(
                [*_installer(python), "-r", path],
                cwd=self._code,
                env=users_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            while process.poll() is None:
                if self._should_stop():
                    process.kill()
                time.sleep(_POLL_SECONDS)
            log.seek(0)
            text = log.read()
        sys.stderr.write(text)
        if process.returncode == 0:
            open(os.path.join(place, _COMPLETE), "wb").close()
        elif not self._should_stop():
            raise InstallationError(f"InstallRequirementsError: {_reason(text.splitlines())}")


def _server_packages() -> Iterator[str]:
    """Yield the folders from which the server imports installed packages."""
    yield from dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))


def _installer(python: str) -> list[str]:
    """Return the beginning of an installer's command: pip, which leaves what the server has, or else uv.

    Raises:
        InstallationError: There is neither.
    """
    if importlib.util.find_spec("pip") is not None:
        own = ("--python", python, "--disable-pip-version-check", "--no-input")
        return [sys.executable, "-m", "pip", *own, "install"]
    uv = shutil.which("uv")
    if uv is None:
        raise InstallationError(f"InstallRequirementsError: {NAME} needs pip in the server's Python, or uv")
    return [uv, "pip", "install", "--python", python]


def _reason(lines: list[str]) -> str:
    """Return what an installer says of its failure."""
    errors = [line for line in lines if line.startswith(("ERROR:", "error:", "×"))]
    return (errors or [line for line in lines if line.strip()] or ["no output"])[-1].strip()


def _hash(code: str) -> str:
    """Return the hash of what decides the environment: requirements, local files that they name, and the Python."""
    digest = hashlib.sha256(f"{sys.version}\0{sys.prefix}\0".encode())
    with open(os.path.join(code, NAME), encoding="utf-8", errors="replace") as file:
        text = file.read()
    digest.update(text.encode())
    if any(line.strip().startswith(_LOCAL) or "@ file:" in line for line in text.splitlines()):
        for parent, folders, names in os.walk(code):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(parent, name)
                digest.update(f"{os.path.relpath(path, code)}\0".encode())
                with open(path, "rb") as content:
                    digest.update(content.read())
    return digest.hexdigest()[:32]
