"""The state of a run: the documents that its processes wrote, as records."""

from __future__ import annotations

import os

from leadline.records.documents import (
    ManifestDocument,
    NodeDocument,
    RuleDocument,
    RuleSummary,
    RunStatus,
    WorkerDocument,
)
from leadline.store import layout
from leadline.store.documents import read_document, read_with_retries


def read_manifest_document(run: str) -> ManifestDocument | None:
    """Read a few fields of the manifest; None if it is missing or no object."""
    document = read_document(os.path.join(run, layout.MANIFEST))
    return ManifestDocument.from_dict(document) if isinstance(document, dict) else None


def read_status(run: str) -> RunStatus:
    """Read the job's status; the default if there is no document yet."""
    return RunStatus.from_dict(read_document(os.path.join(run, layout.STATUS)))


def read_workers(run: str) -> dict[str, WorkerDocument]:
    """Read the documents of all workers, ordered by name."""
    documents = {name: read_with_retries(path) for name, path in document_paths(run, layout.WORKERS).items()}
    return {name: WorkerDocument.from_dict(document) for name, document in documents.items() if document is not None}


def read_nodes(run: str) -> list[NodeDocument]:
    """Read the documents of all nodes, ordered by name."""
    documents = map(read_with_retries, document_paths(run, layout.NODES).values())
    return [NodeDocument.from_dict(document) for document in documents if document is not None]


def read_rule_summary(run: str) -> RuleSummary | None:
    """Read the rule summary; None if the judge has not written one yet."""
    document = read_document(os.path.join(run, layout.RULE_SUMMARY))
    return RuleSummary.from_dict(document) if isinstance(document, dict) else None


def read_rule(run: str, alias: str) -> RuleDocument | None:
    """Read the state of one rule; None if it has not been evaluated yet."""
    document = read_document(os.path.join(run, layout.rule_status(alias)))
    return RuleDocument.from_dict(document) if isinstance(document, dict) else None


def document_paths(run: str, folder: str) -> dict[str, str]:
    """Return the paths of the documents in a folder of a run, by name."""
    try:
        names = sorted(name for name in os.listdir(os.path.join(run, folder)) if name.endswith(".json"))
    except FileNotFoundError:
        return {}
    return {name.removesuffix(".json"): os.path.join(run, folder, name) for name in names}
