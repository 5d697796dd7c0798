"""The configuration of a run as one JSON document, for ``leadline run --config -`` and between processes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

from leadline.config.run_config import RunConfig
from leadline.records.manifest import Manifest

VERSION: Final = 1
"""The version of the document; it changes when an older reader would misunderstand a newer document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchDocument:
    """What a process hands over to the one that launches a run; ``launch.document`` reads it.

    Its way is standard input: arguments are visible to all users of the machine.
    """

    version: int = VERSION
    config: RunConfig | None = None
    """What is requested; None: ``manifest`` is given."""
    manifest: Manifest | None = None
    """What another process has resolved, with the path of the run, but without command, time and versions."""
    is_shared: bool = False
    """Whether other processes may create the run of ``manifest``, too."""
    command: tuple[str, ...] = ()
    """The command line of a process that runs already."""

    def encode(self) -> bytes:
        """Return the document as ASCII; also texts that are no valid Unicode, such as some paths, survive it."""
        return json.dumps(asdict(self)).encode("ascii")
