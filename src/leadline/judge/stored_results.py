"""Results of an evaluation after the end of a run, written into the run so that every surface shows them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterable
from dataclasses import replace

from leadline.judge.rule_entry import RuleEntry, RuleResult
from leadline.judge.rule_results import RuleResultStore
from leadline.reader import liveness
from leadline.records import describe
from leadline.records.documents import RuleDocument, RuleSummary
from leadline.records.manifest import RuleSpec
from leadline.remote.mirror import uri_of
from leadline.store import layout
from leadline.store.documents import make_subfolder
from leadline.store.run_state import read_rule, read_rule_summary

_FINAL = ("clear", "fired", "not_applicable")


def lock_rules(run: str) -> int | None:
    """Lock the results of a run for the judge that writes them, until it ends or closes the descriptor.

    Returns:
        A descriptor, which stays open; None: another judge holds the lock.
    Raises:
        OSError: The folder cannot be created.
    """
    folder = os.path.join(run, layout.RULES)
    make_subfolder(folder)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:  # a file system that cannot lock a folder
        return descriptor
    return descriptor


def why_not_stored(run: str) -> str:
    """Return why the results of an evaluation do not belong into a run; empty: they do."""
    if not liveness.is_over(run):
        return "it is still running, and its own judge writes its results"
    if uri := uri_of(run):
        return f"it is a copy of {uri}"
    if os.stat(run).st_uid != os.geteuid():
        return "it belongs to another user"
    if not os.access(run, os.W_OK):
        return "its folder is read-only"
    return ""


def store_results(run: str, specs: Iterable[RuleSpec], results: Collection[RuleResult]) -> str:
    """Write results of the run's own rules into a run that has ended.

    What its judge has found while it was running stays, also where the data that it was found in is gone by now. Each
    document is replaced as a whole.

    Returns:
        Why they were not written; empty: they were.
    """
    if why := why_not_stored(run):
        return why
    try:
        lock = lock_rules(run)
        if lock is None:
            return "its own judge is still at work"
        try:
            _store(run, {spec.alias: spec for spec in specs}, results)
        finally:
            os.close(lock)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _store(run: str, specs: dict[str, RuleSpec], results: Iterable[RuleResult]) -> None:
    before = read_rule_summary(run) or RuleSummary()
    known = {rule.name: read_rule(run, rule.name) or RuleDocument() for rule in before.rules}
    new = [result for result in results if not _stays(known.get(result.name), result)]
    is_known = all(result.name in known and _is_same(known[result.name], result) for result in new)
    if before.complete and is_known:
        return
    store = RuleResultStore(run, [specs[result.name] for result in new], is_written=False)
    for result in new:
        store.entries[result.name] = _entry(specs[result.name], result)
    store.keep(before, {rule.name for rule in before.rules} - {result.name for result in new})
    store.replace_documents()


def _stays(known: RuleDocument | None, result: RuleResult) -> bool:
    """Return whether what a rule has found before is kept instead of a result that says less."""
    if known is None:
        return False
    state = describe.rule_state(known)
    if state == "fired":
        return not result.findings
    is_final = known.status == "NoIssuesFound" and known.verdict in _FINAL
    return is_final and not result.findings and result.verdict not in _FINAL


def _is_same(known: RuleDocument, result: RuleResult) -> bool:
    stored = known.status, known.verdict, known.why, known.findings, known.judged_step
    return stored == (result.status, result.verdict, result.why, len(result.findings), result.judged_step)


def _entry(spec: RuleSpec, result: RuleResult) -> RuleEntry:
    entry = RuleEntry(replace(spec, rule=result.rule), result.parameters, result.explains, result.severity)
    entry.verdict, entry.why, entry.sampling = result.verdict, result.why, result.sampling
    entry.judged_steps, entry.judged_step, entry.product = result.judged_steps, result.judged_step, result.product
    entry.error = result.why if result.status == "Error" else None
    entry.findings = {finding.id: finding for finding in result.findings}
    entry.open_ids = {finding.id for finding in result.findings if finding.is_open}
    return entry
