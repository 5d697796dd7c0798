"""What to try where a training waits for its data, by what is known of its loader."""

from __future__ import annotations

from typing import Final

from leadline.analysis.advice import Advice

WAITING_SHARE: Final = 0.2
"""A phase in which the training's thread uses a processor, or is ready to, for less than this share of the time is
waiting."""
WAIT: Final = "a wait of the script before it calls the model"
MOST_LIKELY: Final = "for its data, most likely"
OR_RESULTS: Final = "for its data, or for what the last step computes"
"""What a script waits for before it calls the model, where the framework computes while the script goes on."""
_CAUSE: Final = "; usually decoding and augmenting take longer than the step"
_ELSE: Final = "; else cheaper or cached preprocessing"
UNKNOWN: Final = Advice(f"{{more_loader_workers}}, if processors are free{_ELSE}{_CAUSE}")
_NONE: Final = Advice(f"{{first_loader_workers}}{_ELSE}{_CAUSE}")
_MORE: Final = Advice(
    f"{{more_loader_workers}} than {{workers}}, if some of the {{cores}} processors are free{_ELSE}{_CAUSE}",
    *("workers", "cores"),
)
_ENOUGH: Final = Advice(
    f"cheaper or cached preprocessing: there are {{workers}} loader workers for {{cores}} processors already{_CAUSE}",
    *("workers", "cores"),
)


def loader_advice(workers: int | None, cores: int | None) -> Advice:
    """Return what to try first.

    Args:
        workers: The worker processes of the data loader; None: unknown.
        cores: The processors of the node; None: unknown.
    """
    if workers == 0:
        return _NONE
    if workers is None or not cores:
        return UNKNOWN
    return (_MORE if workers < cores else _ENOUGH).given(workers=workers, cores=cores)
