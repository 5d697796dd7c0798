"""Remarks on facts that are one number each: how many of something the program leaves out, or does in vain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from leadline.records.formatting import counted
from leadline.records.names import (
    STUCK_COPY,
    UNCALLED_REGULARIZERS,
    UNTRAINED_VARIABLES,
    UNUSED_LOAD,
    UNWATCHED_TRAINING_SET,
    WATCHED_TRAINING_SET,
)
from leadline.rules import TensorNeed, Window


@dataclass(frozen=True)
class CountedFact:
    """A remark on a check that counts; see ``RemarkPart``.

    Attributes:
        text: The remark, with ``{name}``, what stands before the check, and ``{count}``.
        of: What is counted, in the singular.
    """

    check: str
    of: str
    text: str
    NEED: TensorNeed = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "NEED", TensorNeed.of_checks(self.check))

    def note(self, known: dict[str, int], window: Window) -> None:
        """Note the latest number of each owner."""
        for reading in window.readings("value"):
            name, _, check = reading.tensor.rpartition("/")
            if check == self.check:
                known[name] = int(reading.value)

    def remark(self, known: dict[str, int]) -> str:
        """Return the remark on the first owner with any; empty: there is none."""
        for name, count in known.items():
            if count > 0:
                return self.text.format(name=name, count=counted(count, self.of))
        return ""


FACTS: Final = (
    CountedFact(
        STUCK_COPY,
        "captured step",
        "another model ({name}), of the shapes of the trained one, is written again and again, and its weights have "
        "not moved at {count}, while those of the trained one have: usually an average that is mixed with itself",
    ),
    CountedFact(
        UNUSED_LOAD,
        "model",
        "{name}.load has returned a model that was never used, while another {name}, which there was before and which "
        "has none of the loaded weights, learned: load makes another model, and leaves the one that it is called on as "
        "it was (model = {name}.load(path, env=env), or model.set_parameters(path))",
    ),
    CountedFact(
        UNTRAINED_VARIABLES,
        "weight",
        "fit does not train {count} of {name} that are trainable now: what it trains was settled by its first call "
        "since compile, and trainable was changed after that; compile the model again after the change",
    ),
    CountedFact(
        UNCALLED_REGULARIZERS,
        "trained weight",
        "{count} have a regularizer that was never called, so its penalty is in no loss: in a train step of your own, "
        "add the sum of model.losses to the loss",
    ),
    CountedFact(
        WATCHED_TRAINING_SET,
        "evaluation set",
        "early stopping watches {name}, which is the training data, and no other evaluation set, so it does not stop "
        "where the validation becomes worse: put the validation set last, or name it by data_name of EarlyStopping",
    ),
    CountedFact(
        UNWATCHED_TRAINING_SET,
        "evaluation set",
        "early stopping never stops: LightGBM leaves the training data ({name}) out of it, and there is no other "
        "evaluation set; give it a validation set",
    ),
)
