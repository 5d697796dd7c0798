"""Facts about loss calls are captured at the first steps of each training."""

from __future__ import annotations

from leadline.training.recorder.fact_steps import FactSteps


class Clock:
    step = 0

    def mode_step(self, mode: str) -> int:
        return self.step


def steps_with_facts(begins: set[int], steps: int, *, in_later_trainings: bool = True) -> dict[int, int]:
    """Return the steps with facts and their numbers; a training is known with the end of its first step."""
    clock, trainings = Clock(), [0]
    facts, found = FactSteps(clock, trainings), {}  # type: ignore[arg-type]
    for clock.step in range(steps):
        expected = facts.are_left()
        number = facts.take(in_later_trainings)
        assert facts.take(in_later_trainings) == number
        if number is not None:
            assert expected
            found[clock.step] = number
        if clock.step in begins:
            trainings.append(clock.step)
    return found


def test_the_first_two_steps_of_the_process_and_of_later_trainings_have_facts() -> None:
    assert steps_with_facts({5, 9}, 20) == {0: 0, 1: 1, 6: 0, 7: 1, 10: 0, 11: 1}
    assert steps_with_facts({5}, 20, in_later_trainings=False) == {0: 0, 1: 1}


def test_a_training_of_one_step_has_none_to_spare() -> None:
    assert steps_with_facts({5, 6}, 20) == {0: 0, 1: 1, 6: 0, 7: 0, 8: 1}


def test_only_the_first_trainings_have_facts() -> None:
    found = steps_with_facts(set(range(10, 200, 10)), 220)
    assert max(found) == 10 * 7 + 2
