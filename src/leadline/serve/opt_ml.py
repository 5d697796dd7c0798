"""``python -m leadline.serve.opt_ml CONTAINER COMMAND…``: runs a command for which ``/opt/ml`` is a job's folder.

The kernel gives the command a view of its own of the mounted file systems; others see no difference.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

from leadline.store.documents import make_folder

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_OPT: Final = "/opt"
_ML: Final = "/opt/ml"
_ORIGINAL: Final = "opt"


def enter(container: str) -> None:
    """Let ``/opt/ml`` be a folder, for this process and those that it starts.

    Raises:
        OSError: The system does not permit it.
    """
    _own_mounts()
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    if not os.path.isdir(_ML):
        _add_to_opt(os.path.join(os.path.dirname(container), _ORIGINAL))
    _mount(container, _ML, None, _BIND)


def _own_mounts() -> None:
    """Leave the mounts of the system, where needed as the owner of a user namespace in which the user is the same."""
    user, group = os.getuid(), os.getgid()
    if _LIBC.unshare(_NEW_MOUNTS) == 0:
        return
    _check(_LIBC.unshare(_NEW_USER | _NEW_MOUNTS), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "wb") as file:
            file.write(text.encode())


def _add_to_opt(original: str) -> None:
    """Replace ``/opt`` by a folder in memory with the same entries, and one for the job."""
    make_folder(original)
    _mount(_OPT, original, None, _BIND | _RECURSIVE)
    _mount("tmpfs", _OPT, "tmpfs", 0)
    for name in os.listdir(original):
        source, target = os.path.join(original, name), os.path.join(_OPT, name)
        if os.path.islink(source):
            os.symlink(os.readlink(source), target)
            continue
        if os.path.isdir(source):
            os.mkdir(target)
        else:
            open(target, "wb").close()
        _mount(source, target, None, _BIND | _RECURSIVE)
    os.mkdir(_ML)


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    _check(_LIBC.mount(*words, flags, None), f"mount {target}")


def _check(result: int, name: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def main(container: str, *command: str) -> None:
    """Become a command; where the system does not permit the folder, the log says so."""
    try:
        enter(container)
    except OSError as error:
        sys.stderr.write(f"leadline serve: {_ML} is not the folder of this job: {error.strerror}; use SM_MODEL_DIR …\n")
        sys.stderr.flush()
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
