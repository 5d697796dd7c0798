"""The process that writes TensorBoard files beside a training whose hook exports them."""

from __future__ import annotations

import logging
import os
import subprocess
from typing import TYPE_CHECKING, Final

from leadline.process.interpreter import own_command, own_environment

if TYPE_CHECKING:
    from leadline.training.session.session import Session

logger: Final = logging.getLogger("leadline.compat.smdebug")
_END_SECONDS: Final = 60.0


def write_tensorboard_files(session: Session, folder: str) -> None:
    """Start a process that writes the numbers of a session's run as event files, until the session is closed.

    A failure of it is only logged.

    Args:
        folder: The folder of the files; it exists from now on.
    """
    try:
        os.makedirs(folder, exist_ok=True)
        command = own_command("leadline.exports.tensorboard_events", session.run, folder)
        process = subprocess.Popen(command, env=own_environment(), stdin=subprocess.PIPE)
    except OSError as error:
        logger.warning("no TensorBoard files are written to %s: %s", folder, error.strerror)
        return
    session.after_close.append(lambda: _complete(process))


def _complete(process: subprocess.Popen[bytes]) -> None:
    """Let the process write what is missing, and wait for it."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        logger.warning("TensorBoard files are incomplete; leadline export --to tensorboard makes them")
