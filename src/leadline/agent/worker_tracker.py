"""The workers of a run as the agent sees them: their documents, and which of them are running or gone."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from leadline.agent.election import OtherNodes
from leadline.agent.progress import Workers
from leadline.agent.terminal import StartMessages, Terminal
from leadline.monitor.processes import identify
from leadline.records import describe
from leadline.records.documents import DroppedData, WorkerDocument
from leadline.store.run_state import recorded_end

_SILENT_SECONDS: Final = 30.0
"""A worker of a node without agent is taken for dead when its document did not change for so long."""


class WorkerTracker:
    """Follows the documents of all workers, and warns about dropped data and disabled capture.

    Args:
        run: The run directory.
        node: The name of this node.
        others: The other nodes of the run.
    """

    def __init__(
        self,
        run: str,
        node: str,
        others: OtherNodes,
        messages: StartMessages,
        terminal: Terminal,
        *,
        clock: Callable[[], float],
    ) -> None:
        self.gone: set[str] = set()
        """Workers whose process is gone though they never reported their end: those of this node, and of nodes without
        an agent that have written nothing for a while."""
        self._others = others
        self._node = node
        self._messages = messages
        self._terminal = terminal
        self._clock = clock
        self._run, self._workers = run, Workers(run)
        self._changed_at: dict[str, float] = {}
        self._reported: set[tuple[str, str]] = set()

    @property
    def documents(self) -> dict[str, WorkerDocument]:
        """The latest document of each worker, by the worker's name."""
        return self._workers.documents

    def poll(self) -> None:
        """Read the documents that changed."""
        for worker in self._workers.poll():
            self._changed_at[worker] = self._clock()
            document = self.documents[worker]
            self._messages.announce_worker(document)
            for key, line in describe.problems(document).items():
                if (worker, key) not in self._reported:
                    self._reported.add((worker, key))
                    self._terminal.message(f"{worker}: {line}", "warning")
        self._find_gone()

    def _find_gone(self) -> None:
        for worker, document in self.documents.items():
            if document.state != "running":
                self.gone.discard(worker)
            elif document.node != self._node:
                is_gone = self._is_abandoned(worker, document.node or "")
                (self.gone.add if is_gone else self.gone.discard)(worker)
            else:
                is_gone = identify(document.pid or 0) is None  # a worker that was started again has another pid
                (self.gone.add if is_gone else self.gone.discard)(worker)

    def _is_abandoned(self, worker: str, node: str) -> bool:
        now = self._clock()
        has_agent = not self._others.has_ended(node) and not self._others.is_silent(node, now)
        return not has_agent and now - self._changed_at[worker] >= _SILENT_SECONDS

    def running_here(self) -> list[int]:
        """Return the pids of the workers of this node that are running."""
        return [
            document.pid
            for worker, document in self.documents.items()
            if document.node == self._node and document.state == "running" and document.pid and worker not in self.gone
        ]

    def may_train(self) -> bool:
        """Return whether some worker is running, or none has started yet."""
        return not self.documents or any(document.state == "running" for document in self.documents.values())

    def end_own_loops(self) -> bool:
        """Return whether a stop ends the loops of trainers, after which the scripts of the running workers go on."""
        running = [document for document in self.documents.values() if document.state == "running"]
        return bool(running) and all(document.ends_own_loop for document in running)

    def have_ended(self, pids: Collection[int]) -> bool:
        """Return whether all of these processes are workers that reported their end, and do not exit at this moment."""
        documents = [document for document in self.documents.values() if document.pid in pids]
        are_known = {document.pid for document in documents} == pids
        have_reported = are_known and all(document.state == "ended" for document in documents)
        return have_reported and not recorded_end(self._run, self.documents, None).is_pending

    def are_running_elsewhere(self) -> bool:
        """Return whether a worker of another node is running."""
        gone = self.gone.union(*(node.gone for node in self._others.documents.values()))
        return any(
            document.node != self._node and document.state == "running" and worker not in gone
            for worker, document in self.documents.items()
        )

    def dropped_data(self) -> dict[str, DroppedData]:
        """Return what each worker could not write, by worker."""
        return {worker: document.lost for worker, document in self.documents.items() if document.lost is not None}
