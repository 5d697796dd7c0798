"""The upload of one run: rounds of the uploader, their failures, and the document that tells how far it is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from leadline.errors import ConfigurationError, LeadlineError
from leadline.records.incarnations import Incarnations
from leadline.remote.catalogue import Entry, entry_of, publish, record_change
from leadline.remote.exchange import Exchange
from leadline.remote.fetching import stored_document
from leadline.remote.object_store import ObjectStore, StoreError
from leadline.remote.uploader import PendingUpload, Uploader
from leadline.store import layout
from leadline.store.disk_limit import Removed
from leadline.store.incarnations import read_incarnations
from leadline.store.upload_state import read_upload, write_upload

_FIRST_BACKOFF_SECONDS: Final = 1.0
_MAX_BACKOFF_SECONDS: Final = 30.0
_WAITING: Final = 2
"""Times the bound of the spool that it may have while the store takes everything, a round later."""


class Upload:
    """Uploads a run, and records in its directory how far that is.

    Args:
        run: The run directory.
        store: The store of the run; None: that of its ``upload.json``.
        root: The store of the root, whose catalogue lists the run; None: that of its ``upload.json``.
        clock: The time in ns.

    Attributes:
        backoff_seconds: How long to wait after failures; 0 after a success.
        exchange: With the other nodes of a run that share only the store; None: there are none.
    Raises:
        ConfigurationError: The run is not to be uploaded.
        StoreError: The store cannot be used as it is configured.
    """

    def __init__(
        self,
        run: str,
        store: ObjectStore | None = None,
        root: ObjectStore | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.state = read_upload(run)
        if not self.state.uri:
            raise ConfigurationError(f"{run} was not started with --out s3://…, gs://… or az://…: nothing to upload")
        self.backoff_seconds = 0.0
        state = self.state
        self._removed = [Removed(state.removed_files, state.removed_bytes, state.lost_files, state.lost_bytes)]
        self._run, self._clock = run, clock
        self._store = store = store or ObjectStore(self.state.uri)
        self.exchange = Exchange(run, store, state.node) if state.is_joint else None
        self._uploader = Uploader(run, store, self.exchange.is_own if self.exchange is not None else None)
        self._root = root or ObjectStore(self.state.uri.rpartition("/")[0])
        self._is_recorded = False
        """Whether lists know that the run has begun."""
        self._entry: Entry | None = None if read_incarnations(run).number else {}
        """The entry in the catalogue; None: not known, of a run that was resumed."""

    def advance(self, *, is_final: bool) -> bool:
        """Do one round; return whether something was uploaded.

        Args:
            is_final: Whether nothing is written any more.
        """
        before, error = self._uploader.uploaded_bytes, ""
        try:
            if is_final or not self._is_recorded:
                self._check_incarnation()
            if self.exchange is not None:
                self.exchange.take_workers()
                self.exchange.fetch_terms()
                if is_final:
                    self.exchange.pulse()
                if is_final and self.exchange.has_taken_over:  # one that woke up may have written some
                    self._uploader.forget_documents()
            self._uploader.sync(is_final=is_final)
            if self.exchange is not None:
                self.exchange.fetch()
            if not self._is_recorded:
                record_change(self._root, os.path.basename(self.state.uri), self._clock())
                self._is_recorded = True
            if self.exchange is None or self.exchange.is_primary:
                self._publish(entry_of(self._run) if is_final else {})
            self.backoff_seconds = 0.0
        except (LeadlineError, OSError) as failure:
            error = str(failure)
            self.backoff_seconds = min(_MAX_BACKOFF_SECONDS, self.backoff_seconds * 2 or _FIRST_BACKOFF_SECONDS)
        self._trim(is_store_away=bool(error))
        uploaded = self._uploader.uploaded_bytes - before
        self._record(error, uploaded, is_final=is_final)
        return uploaded > 0

    def _check_incarnation(self) -> None:
        """Raise an error if the run goes on elsewhere: what this run directory has more than the store is replaced."""
        stored = Incarnations.from_dict(stored_document(self._store, layout.INCARNATIONS))
        if stored.job > read_incarnations(self._run).job:
            raise StoreError(
                f"{self.state.uri}: was resumed on another machine since; nothing more of {self._run} is uploaded"
            )

    def _publish(self, entry: Entry) -> None:
        if entry != self._entry:
            publish(self._root, os.path.basename(self.state.uri), entry)
            self._entry = entry

    def _trim(self, *, is_store_away: bool) -> None:
        """Keep the spool within its bound; what was written during a round that succeeded may wait for the next one."""
        max_bytes = self.state.max_bytes
        try:
            removed = self._uploader.trim(max_bytes, max_bytes if is_store_away else _WAITING * max_bytes)
        except OSError:  # a file system that fails: the next round tries again
            return
        if removed != Removed():
            self._removed.append(removed)

    def _record(self, error: str, uploaded: int, *, is_final: bool) -> None:
        # what was written during a round that succeeded is uploaded by the next one: it does not count as waiting
        pending = self._uploader.pending() if error or is_final else PendingUpload()
        removed = self._removed
        state = replace(
            self.state,
            removed_files=sum(one.files for one in removed),
            removed_bytes=sum(one.nbytes for one in removed),
            lost_files=sum(one.lost_files for one in removed),
            lost_bytes=sum(one.lost_bytes for one in removed),
            is_complete=is_final and not error and not pending.files,
            pending_files=pending.files,
            pending_bytes=pending.nbytes,
            uploaded_bytes=self.state.uploaded_bytes + uploaded,
            behind_since_ns=(self.state.behind_since_ns or self._clock()) if pending.files else None,
            error=error,
        )
        if state != self.state:
            self.state = state
            try:
                write_upload(self._run, state)
            except OSError:  # a full disk: the next round tries again
                return
