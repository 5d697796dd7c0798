"""The server: its folder, its socket, and the thread that follows the jobs."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Final

from leadline.config.secrets import refuse_literal
from leadline.dashboard.connections import quiet_server
from leadline.dashboard.security import Access, is_loopback
from leadline.dashboard.server import call_after_start, share_arenas
from leadline.errors import ConfigurationError
from leadline.reader.pandas_import import skip_pandas_import
from leadline.serve import rule_messages
from leadline.serve.app import ApiService, create_app
from leadline.serve.job_folder import PRIVATE_UMASK
from leadline.serve.job_queue import JobQueue, ServerSettings
from leadline.serve.run_configuration import ADDRESS
from leadline.serve.signature import read_key_pairs
from leadline.serve.state_events import StateEvents
from leadline.serve.state_file import StateFile
from leadline.serve.topics import Topics
from leadline.serve.training_job import TrainingJob
from leadline.store.documents import make_folder

STATE: Final = "state.sqlite"
_SHUTDOWN_SECONDS: Final = 3
_MAX_CONNECTIONS: Final = 128
"""Each may hold a body of 4 MB."""


def key_pairs(host: str, path: str | None) -> dict[str, str] | None:
    """Return the key pairs of the clients; None: requests need no signature.

    Raises:
        ConfigurationError: The address is reachable from other machines and there is no file, or it is unusable.
    """
    if path is not None:
        return read_key_pairs(path)
    if not is_loopback(host):
        raise ConfigurationError(
            f"--host {host}: jobs run any code that a client sends, so other machines are served only with --keys FILE"
        )
    return None


def notification_targets(given: Mapping[str, str | None]) -> dict[str, str]:
    """Return the given targets of ``notify``, by action.

    Raises:
        ConfigurationError: One has no place for the recipient, or contains a password in plain text.
    """
    targets = {action: target for action, target in given.items() if target is not None}
    for action, target in targets.items():
        if ADDRESS not in target:
            raise ConfigurationError(f"--{action} needs {ADDRESS} where the URL has the recipient")
        refuse_literal({"url": target}, f"--{action}")
    return targets


def serve(
    settings: ServerSettings,
    listener: socket.socket,
    access: Access,
    keys: dict[str, str] | None,
    events: StateEvents | None,
    on_start: Callable[[], None],
) -> None:
    """Serve until a signal arrives; running jobs continue, and the next server finds them.

    Args:
        events: Receives the changes of the jobs.
        on_start: Called once, as ``dashboard.server.call_after_start`` does.
    Raises:
        ConfigurationError: The folder cannot be used, or another server uses it.
    """
    os.umask(PRIVATE_UMASK)
    share_arenas()
    skip_pandas_import()
    try:
        make_folder(settings.folder)
        os.chmod(settings.folder, 0o700)
    except OSError as error:
        raise ConfigurationError(f"--folder {settings.folder}: {(error.strerror or str(error)).lower()}") from None
    state = StateFile(os.path.join(settings.folder, STATE))
    topics = Topics(settings, os.environ)
    topics.check()

    def changed(before: TrainingJob | None, job: TrainingJob) -> None:
        rule_messages.publish(topics, before, job)
        if events is not None:
            events.changed(before, job)

    service = ApiService(JobQueue(state, settings, on_change=changed), topics, access, keys)
    has_ended = threading.Event()

    follower = threading.Thread(target=service.follow, args=(has_ended,), name="jobs", daemon=True)
    with service.lock:
        service.queue.advance()
    follower.start()
    server = quiet_server(create_app(service), max_connections=_MAX_CONNECTIONS, shutdown_seconds=_SHUTDOWN_SECONDS)
    call_after_start(server, on_start)
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        return  # uvicorn raises the signal again after shutdown
    finally:
        has_ended.set()
        follower.join()
        state.close()
        topics.close()
        if events is not None:
            events.close()
