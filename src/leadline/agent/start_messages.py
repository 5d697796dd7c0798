"""The lines in the terminal at the start of a run."""

from __future__ import annotations

import os

from leadline.agent.run_documents import RunDocuments
from leadline.agent.terminal import Terminal
from leadline.records import describe
from leadline.records.documents import ManifestDocument, WorkerDocument
from leadline.records.formatting import counted, short_path


class StartMessages:
    """Announces the run, then what its first worker captures, then how to follow and stop the run.

    Args:
        unwatched: Why Leadline cannot be loaded into the job; None: it can.
    """

    def __init__(
        self, terminal: Terminal, documents: RunDocuments, manifest: ManifestDocument, *, unwatched: str | None
    ) -> None:
        self.has_hinted = False
        """Whether the start is complete: the commands to follow and stop the run were shown."""
        self._terminal, self._documents, self._manifest, self._unwatched = terminal, documents, manifest, unwatched

    def announce_run(self) -> None:
        """Show the name, the directory and the configuration of the run."""
        path = short_path(self._documents.run, os.getcwd())
        name = self._manifest.name or os.path.basename(self._documents.run)
        if self._documents.is_secondary:
            self._terminal.message(f"run {name} → {path}   joined on {self._documents.node}")
            self.has_hinted = True
            return
        rules = counted(len(self._manifest.rules), "rule")
        configuration = f"preset {self._manifest.preset}, {rules}"
        if self._unwatched is not None:
            configuration = f"system metrics only: {self._unwatched}"
        self._terminal.message(f"run {name} → {path}   {configuration}")
        if self._unwatched is not None:
            self.hint()

    def announce_worker(self, document: WorkerDocument) -> None:
        """Show what a worker captures, unless the start is complete."""
        if not self.has_hinted:
            self._terminal.message(describe.watched(document))
            self.hint()

    def hint(self) -> None:
        """Show the commands to follow and stop the run."""
        self.has_hinted = True
        self._terminal.message("status: leadline show        stop: leadline stop")
