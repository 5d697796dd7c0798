"""Continuation of a run that an earlier process began: the streams and the step at which this process continues."""

from __future__ import annotations

import os

from leadline.records.documents import WorkerDocument
from leadline.records.incarnations import Incarnations, StepPosition, WorkerStart, WorkerStreams
from leadline.records.names import NEW_STATE, RESUMED, rank_of
from leadline.store import layout
from leadline.store.documents import PRIVATE_FILE, make_subfolder, read_with_retries
from leadline.store.incarnations import read_incarnations


class Resumption:
    """What this process continues, in a run that is not started for the first time.

    Args:
        run: The run directory.

    Attributes:
        number: The incarnation of the run; 0: it was started for the first time, and nothing is continued.
        requests: The requests that were made of earlier incarnations and are obeyed no more.
        position: Where this process continues; None until that is known.
        counted_before: The number of steps that the optimizer had counted before train step 0; None: it counts none.
            Negative where it began to count later.
        has_new_state: Whether the optimizer had counted no step when this process continued.
    """

    def __init__(self, run: str) -> None:
        self.position: StepPosition | None = None
        self.counted_before: int | None = None
        self.has_new_state = False
        self._run, self._incarnations = run, _read(run)
        self.number, self.requests = self._incarnations.number, self._incarnations.requests
        self._streams = WorkerStreams()

    @property
    def is_awaiting_step(self) -> bool:
        """Whether the resumed step is still unknown; it is determined at the first train step."""
        return self.number > 0 and self.position is None and self._incarnations.end.step > 0

    def place(self, steps: int | None = None) -> tuple[StepPosition, str]:
        """Decide where this process continues, once.

        A count proves a step only if it is beyond what had been counted before the run: a new optimizer begins at 0,
        and the steps of earlier processes would be taken for repeated ones.

        Args:
            steps: The number of steps that the optimizer has counted before this one; None: it counts none.
        Returns:
            The position, and a note if it is not certain; empty: it is.
        """
        given, end, note = self._incarnations.resume_step, self._incarnations.end, ""
        self.has_new_state = steps == 0 and end.step > 0
        before = self._incarnations.counted_before
        steps = steps - before if steps is not None and steps > max(before, 0) else None
        if steps is None and given is None and end.step:
            why = "the optimizer state was not restored, and " if self.has_new_state else ""
            note = (
                f"resumed after the last captured step {end.step - 1:,}: {why}nothing tells the step of the "
                "checkpoint; if it is another one: --resume-step"
            )
        elif given is None and steps is not None and steps > end.step:
            note = f"resumed at step {steps:,}: steps {end.step:,} to {steps - 1:,} were not captured"
        wanted = given if given is not None else steps
        self.position = end if wanted is None else self._incarnations.position(wanted)
        return self.position, note

    def checks(self) -> dict[str, float]:
        """Return what rules are told at the first train step of this process; nothing unless the run is resumed."""
        return {RESUMED: float(self.number), NEW_STATE: float(self.has_new_state)} if self.number else {}

    def claim_worker(self, rank: int, node: str, *, is_known: bool = True) -> tuple[str, WorkerDocument] | None:
        """Continue the worker of a rank, unless another process does; return its name and last document.

        Of several workers of a rank, that with the most steps comes first.

        Args:
            rank: The rank of this process.
            node: The name of this node.
            is_known: Whether a launcher or framework tells the rank, so that no other node has a process of it. If
                not, nodes that share only a store continue the workers of their own name: neither sees what the other
                one continues.
        """
        is_joint = os.path.exists(os.path.join(self._run, layout.OTHERS))
        workers = self._incarnations.workers.items()
        of_rank = [(name, streams) for name, streams in workers if rank_of(name) == rank]
        for name, streams in sorted(of_rank, key=lambda worker: -worker[1].steps):
            path = os.path.join(self._run, layout.worker_document(name))
            document = WorkerDocument.from_dict(read_with_retries(path))
            if (is_known or not is_joint or document.node == node) and self._claim(name, node):
                self._streams = streams
                return name, document
        return None

    def _claim(self, worker: str, node: str) -> bool:
        path = os.path.join(self._run, layout.worker_claim(worker, self.number))
        make_subfolder(os.path.dirname(path))
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
        except FileExistsError:
            return False
        try:
            os.write(descriptor, node.encode())
        finally:
            os.close(descriptor)
        return True

    @property
    def starts(self) -> tuple[WorkerStart, ...]:
        """The starts of this process's worker, for its document."""
        if self.number == 0 or self.position is None:
            return ()
        at, streams = self.position, self._streams
        start = WorkerStart(
            self.number,
            at.global_step,
            at.finished,
            streams.series,
            streams.timeline,
            streams.tensors,
            has_new_state=self.has_new_state,
        )
        return (*streams.starts, start)


def _read(run: str) -> Incarnations:
    return read_incarnations(run) if os.path.exists(os.path.join(run, layout.INCARNATIONS)) else Incarnations()
