"""Remarks on the tokens and labels that a causal language model is given: its end token, its prompts, its padding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from leadline.records import loss_facts as facts
from leadline.records.formatting import counted
from leadline.records.formatting import share as percent
from leadline.rules import Window
from leadline.rules.losses.given_loss import GivenLoss, given_losses

_MIN_SEQUENCES = 8
_EQUAL = 0.99
"""The share of the labels that are the token at their place, where nothing else but a shift by the model is meant."""
_MIN_ROWS = 4
"""Fewer sequences of a batch may begin alike by chance."""
_MIN_COMMON = 4
_MUCH_PADDING = 0.5
_WITHOUT_LABELS = 0.1
"""A share of the sequences without labels above which that is worth saying: a few are long in any data."""
_CUT_OFF = 0.25


@dataclass(slots=True)
class GivenTokens:
    """The facts about the tokens of one loss, at the steps at which they were captured."""

    steps: list[GivenLoss] = field(default_factory=list)

    @staticmethod
    def note(known: dict[tuple[str, str], GivenTokens], window: Window) -> None:
        """Add what the losses of a step were given, by worker and loss."""
        for loss in given_losses(window):
            if loss.number(facts.LABELS_OF_INPUT) >= _EQUAL:
                known.setdefault((loss.worker, loss.name), GivenTokens()).steps.append(loss)

    def remarks(self) -> Iterator[str]:
        """Yield the remarks on them."""
        if self.steps:
            yield from filter(
                None,
                (
                    self._of_end(),
                    self._without_labels() or self._of_cut_ends(),
                    self._of_begin(),
                    self._of_packed(),
                    self._of_rows(),
                    self._of_prompt() or self._of_template(),
                    self._of_padding(),
                ),
            )

    def _of_end(self) -> str:
        """Return the remark on an end token that is never a label; empty: none."""
        rows, labels = self._sum(facts.END_SEQUENCES), self._sum(facts.END_LABELS)
        if rows < _MIN_SEQUENCES or labels > 0:
            return ""
        token = int(self.steps[0].number(facts.END_TOKEN))
        also = ", which is the token of padding, too," if self.steps[0].has(facts.IS_END_PADDING) else ""
        return (
            f"the end token ({token}){also} occurs in {rows:,} of the first {self._sum(facts.SEQUENCES):,} sequences, "
            "and never as a label: the model does not learn to stop"
        )

    def _without_labels(self) -> str:
        """Return the remark on sequences that have no label at all; empty: none."""
        rows, without = self._sum(facts.SEQUENCES), self._sum(facts.SEQUENCES_WITHOUT_LABELS)
        if rows < _MIN_SEQUENCES or not without > _WITHOUT_LABELS * rows:
            return ""
        return (
            f"{without:,} of the first {rows:,} sequences have no label at all: they cost time, and nothing is learned "
            "from them; usually the maximum length cuts the answer off, or the text that it begins with is not found"
        )

    def _of_cut_ends(self) -> str:
        """Return the remark on answers that are cut off before their end token; empty: none."""
        rows, cut = self._sum(facts.SEQUENCES), self._sum(facts.CUT_SEQUENCES)
        ended = self._sum(facts.ENDED_SEQUENCES)
        are_single = ended and ended == self._sum(facts.END_SEQUENCES)
        if rows < _MIN_SEQUENCES or not are_single or not cut > _CUT_OFF * rows:
            return ""
        token = int(self.steps[0].number(facts.END_TOKEN))
        return (
            f"{cut:,} of the first {rows:,} sequences fill the batch to its end without an end token ({token}), with "
            f"which {ended:,} others end: the maximum length cuts them off, and of these the model does not learn to "
            "stop"
        )

    def _of_begin(self) -> str:
        """Return the remark on a token of the beginning that no sequence has; empty: none."""
        rows = self._sum(facts.SEQUENCES)
        if rows < _MIN_SEQUENCES or not all(step.is_known(facts.BEGIN_SEQUENCES) for step in self.steps):
            return ""
        if self._sum(facts.BEGIN_SEQUENCES):
            return ""
        token = int(self.steps[0].number(facts.BEGIN_TOKEN))
        return (
            f"the beginning token ({token}) occurs in none of the first {rows:,} sequences: a model that was "
            "pretrained with it reads texts that begin otherwise"
        )

    def _of_packed(self) -> str:
        """Return the remark on packed samples that attend to each other; empty: none."""
        mixed = self._sum(facts.MIXED_ROWS)
        if not mixed:
            return ""
        return (
            f"{mixed:,} of the first {self._sum(facts.SEQUENCES):,} rows hold several samples (position_ids begin "
            "again), and each attends to those before it: Transformers separates them only without attention_mask and "
            "with use_cache=False"
        )

    def _of_rows(self) -> str:
        """Return the remark on tokens that a frozen embedding does not tell apart; empty: none."""
        new = max(int(step.number(facts.NEW_ROWS)) for step in self.steps)
        if new:
            return (
                f"{counted(new, 'token')} of a batch got a row when the embedding was enlarged, and it is frozen: "
                "these rows stay as they were made (of PEFT, modules_to_save or trainable_token_indices trains new "
                "tokens)"
            )
        most = max(int(step.number(facts.EQUAL_ROWS)) for step in self.steps)
        if not most:
            return ""
        return (
            f"{most:,} tokens of a batch have the same row in the embedding, which is frozen: the model cannot tell "
            "them apart (of PEFT, modules_to_save or trainable_token_indices trains new tokens)"
        )

    def _of_prompt(self) -> str:
        """Return the remark on a beginning that all sequences share, and that is learned; empty: none."""
        common = min(int(step.number(facts.COMMON_START)) for step in self.steps)
        learned = min(int(step.number(facts.COMMON_LABELS)) for step in self.steps)
        rows = min(step.number(facts.SEQUENCES) for step in self.steps)
        if rows < _MIN_ROWS or common < _MIN_COMMON or learned < common - 1:
            return ""
        share = min(step.number(facts.LABEL_SHARE) for step in self.steps)
        return (
            f"the sequences of a batch begin with the same {common:,} tokens, and these are labels, as are "
            f"{percent(share)} of all tokens: the loss includes the prompt"
        )

    def _of_template(self) -> str:
        """Return the remark on a template within all sequences where everything is learned; empty: none."""
        rows = min(step.number(facts.SEQUENCES) for step in self.steps)
        has_template = all(step.number(facts.INNER_START) > 0 for step in self.steps)
        if rows < _MIN_ROWS or not has_template or min(step.number(facts.LABEL_SHARE) for step in self.steps) < _EQUAL:
            return ""
        return (
            "all sequences of a batch hold the same tokens in a row, behind their beginnings (a template), and all "
            "tokens are labels: the loss includes the prompt"
        )

    def _of_padding(self) -> str:
        """Return the remark on batches that are mostly padding; empty: none."""
        share = min(step.number(facts.PADDING_SHARE) for step in self.steps)
        if not share > _MUCH_PADDING:
            return ""
        return (
            f"{percent(share)} of the positions of the first batches are padding: batches of sequences of like length "
            "save time"
        )

    def _sum(self, fact: str) -> int:
        return int(sum(step.number(fact) for step in self.steps))
