"""What the judge of a run may execute: built-in rules always, what the run itself names only if that is trusted."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from leadline.config.trust import acts_outside, code_of, digest_of_run, is_foreign
from leadline.records.manifest import Manifest, RuleSpec


@dataclass(frozen=True, slots=True)
class RunTrust:
    """How far a run is trusted.

    A run directory may come from anybody: custom rules and actions that it names are executed only if a person has
    named the run as trusted, or if its manifest is the one with which the agent of this judge was started.
    """

    is_whole: bool = False
    """Whether everything that the run names is executed: a person has asked for that."""
    digest: str = ""
    """Of the manifest with which the agent was started; requests may add no other code to that."""

    def is_own(self, manifest: Manifest) -> bool:
        """Return whether the manifest may name code."""
        return self.is_whole or digest_of_run(manifest.to_dict()) == self.digest

    def takes(self, spec: RuleSpec, manifest: Manifest) -> bool:
        """Return whether a rule is evaluated: it is built in, or the class of one with which the run was started."""
        if not is_foreign(spec.rule) or self.is_whole:
            return True
        classes = {code_of(known.rule, known.folder) for known in manifest.rules}
        return self.is_own(manifest) and code_of(spec.rule, spec.folder) in classes

    def left_out(self, specs: Iterable[RuleSpec], manifest: Manifest) -> dict[str, str]:
        """Return why rules are not evaluated, by alias."""
        return {spec.alias: why_left_out(spec) for spec in specs if not self.takes(spec, manifest)}

    def without_foreign_actions(self, manifest: Manifest) -> Manifest:
        """Return a manifest without the actions that this judge must not perform."""
        if self.is_own(manifest):
            return manifest
        return replace(manifest, actions=tuple(spec for spec in manifest.actions if not acts_outside(spec.action)))


def why_left_out(spec: RuleSpec) -> str:
    """Return why a rule is left out, with the option that takes it."""
    return (
        f"left out, as only the run names its code; if you trust the run: --trust-run, or this rule: "
        f"--rule {spec.alias}={_shown(spec)}"
    )


def _shown(spec: RuleSpec) -> str:
    file, _, name = spec.rule.rpartition(":")
    return f"{os.path.join(spec.folder, file)}:{name}" if file.endswith(".py") else spec.rule
