"""How the episodes of a reinforcement learning end, and the actions that its first policy can choose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from leadline.records.formatting import exact, significant
from leadline.records.formatting import share as percent
from leadline.records.names import ACTIONS, EPISODES
from leadline.rules import TensorNeed, Window

NEED: Final = TensorNeed.of_checks(*EPISODES, *ACTIONS)
_MIN_EPISODES: Final = 10
_HALF: Final = 0.5
_LITTLE: Final = 0.1
"""The share of an action space that is too little for a search, and that of the draws within it."""
Rollouts = dict[tuple[str, str], dict[str, float]]
"""What is known of each algorithm, by worker and name."""


def note(known: Rollouts, window: Window) -> None:
    """Note the latest numbers of each algorithm."""
    for reading in window.readings("value"):
        name, _, check = reading.tensor.rpartition("/")
        if check in EPISODES or check in ACTIONS:
            known.setdefault((reading.worker, name), {})[check] = reading.value


def remarks(known: Rollouts) -> Iterator[str]:
    """Yield the remarks on them."""
    for (_, name), numbers in known.items():
        yield _of_episodes(numbers)
        yield _of_actions(name, numbers)


def _of_episodes(numbers: dict[str, float]) -> str:
    """Return the remark on a limit of steps that ends episodes as if the task had ended them; empty: none."""
    count, longest, at_limit, truncated = (numbers.get(check, 0.0) for check in EPISODES)
    if truncated or longest <= 1 or at_limit < _MIN_EPISODES or at_limit < _HALF * count:
        return ""
    return (
        f"{at_limit:.0f} of the latest {count:.0f} episodes ended after exactly {longest:.0f} steps, none after more, "
        "and all as terminated: if that is a limit of steps, truncated is to say so, since a state at which the task "
        "is terminated has no value; right if the task itself ends then"
    )


def _of_actions(name: str, numbers: dict[str, float]) -> str:
    """Return the remark on an action space of another scale than the policy's draws; empty: none."""
    if not all(check in numbers for check in ACTIONS):
        return ""
    covered, within, low, high, deviation = (numbers[check] for check in ACTIONS)
    if covered >= _LITTLE and within >= _LITTLE:
        return ""
    of_draws = f"reaches {percent(covered)} of the action space" if covered < _LITTLE else "is far wider than it"
    inside = f", and {percent(within)} of its draws lie within it" if within < _LITTLE else ""
    return (
        f"an action is between {exact(low)} and {exact(high)}, but {name} begins with a normal distribution around 0 "
        f"with a deviation of {significant(deviation)}, which {of_draws}{inside}: bounds of -1 and 1, rescaled in the "
        "environment (gymnasium.wrappers.RescaleAction)"
    )
