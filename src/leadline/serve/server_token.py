"""The token of a server without keys: part of its address, known to who can read its folder."""

from __future__ import annotations

import os
import secrets
import stat
from typing import Final

from leadline.errors import ConfigurationError
from leadline.store.documents import PRIVATE_FILE, make_folder

_FILE: Final = "token"
_BYTES: Final = 24


def server_token(folder: str) -> str:
    """Return the token of the server with a folder; the first time, it is created.

    Args:
        folder: The folder of the server.
    Raises:
        ConfigurationError: The file cannot be written or read, or other users can read it.
    """
    path = os.path.join(folder, _FILE)
    try:
        make_folder(folder)
        _create(path)
        with open(path, encoding="utf-8") as file:
            is_shared = os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO)
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if is_shared or len(token) < _BYTES:
        why = "other users can read this token" if is_shared else "this is no token"
        raise ConfigurationError(f"{path}: {why}; delete the file, and restart the server")
    return token


def _create(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, PRIVATE_FILE)
    except FileExistsError:
        return
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(secrets.token_urlsafe(_BYTES) + "\n")
