"""The manifest with which an agent was started, as far as it may be executed on this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from leadline.config import trust
from leadline.records.documents import ManifestDocument
from leadline.store import layout
from leadline.store.documents import read_document


@dataclass(frozen=True, slots=True)
class StartedManifest:
    """The manifest of a run when its agent was started; what changes in the file later is not executed."""

    document: ManifestDocument
    """Without the actions that are left out."""
    digest: str = ""
    """Of what the run executes, for the judge; empty: of that nothing is executed."""
    left_out: tuple[str, ...] = ()
    """The custom rules and actions that are not executed, since the run comes from elsewhere."""


def read_started_manifest(run: str) -> StartedManifest:
    """Read the manifest of a run that this process will watch.

    What it executes beside the training is taken if the process that became this agent has just configured it, or if
    this user has started a run with the same rules and actions on this machine.
    """
    found = read_document(os.path.join(run, layout.MANIFEST))
    stored = found if isinstance(found, dict) else {}
    document, digest = ManifestDocument.from_dict(stored), trust.digest_of_run(stored)
    is_own = trust.is_empty(digest) or trust.is_trusted(digest)
    os.environ.pop(trust.TRUSTED, None)  # no business of the training
    if is_own:
        return StartedManifest(document, digest)
    inside = tuple(action for action in document.actions if not trust.acts_outside(action.action))
    return StartedManifest(replace(document, actions=inside), "", tuple(trust.executes(stored)))
