"""The incarnations of a run: what a resumed run continues."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace

from leadline.errors import RunNotWritableError
from leadline.records.documents import RunStatus, Transition
from leadline.records.incarnations import Incarnations
from leadline.store import layout
from leadline.store.documents import read_document, write_document
from leadline.store.run_state import read_rule_summary
from leadline.store.upload_state import read_upload, write_upload


def read_incarnations(run: str) -> Incarnations:
    """Read the incarnations of a run; of one that was started once, those without a start."""
    return Incarnations.from_dict(read_document(os.path.join(run, layout.INCARNATIONS)))


def begin_incarnation(run: str, incarnations: Incarnations, before: RunStatus) -> None:
    """Begin the last one of some incarnations: its processes continue the streams of the run.

    Args:
        before: How the one before ended.
    Raises:
        RunNotWritableError: The run cannot be written.
    """
    transitions = before.transitions
    if transitions and transitions[-1].status != before.status:  # its agent was killed
        transitions = (*transitions, Transition(before.status, incarnations.starts[-1].ended_ns or 0))
    starting = Transition("Starting", incarnations.since_ns)
    status = RunStatus("Starting", (*transitions, starting), job_pid=os.getpid(), node=before.node)
    summary, upload = read_rule_summary(run), read_upload(run)
    try:
        # roll-ups of steps that will be repeated; derived, and derived again without them
        shutil.rmtree(os.path.join(run, layout.COMPACT), ignore_errors=True)
        if summary is not None:
            write_document(os.path.join(run, layout.RULE_SUMMARY), replace(summary, complete=False))
        if upload.uri:
            write_upload(run, replace(upload, is_complete=False))
        write_document(os.path.join(run, layout.INCARNATIONS), incarnations)
        write_document(os.path.join(run, layout.STATUS), status)
    except OSError as error:
        raise RunNotWritableError(f"the run cannot be written at {run}: {error.strerror}") from None


def continue_samples(run: str, samples: Mapping[str, int]) -> None:
    """Let the next agents of a run continue its system metrics: further processes join a run that has ended.

    Args:
        samples: The number of the next batch of each node.
    Raises:
        RunNotWritableError: The run cannot be written.
    """
    try:
        write_document(os.path.join(run, layout.INCARNATIONS), replace(read_incarnations(run), samples=dict(samples)))
    except OSError as error:
        raise RunNotWritableError(f"the run cannot be written at {run}: {error.strerror}") from None
