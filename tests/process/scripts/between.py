"""A rule that fires in a fixed range of steps of any training."""

from leadline.rules import Clear, Fired, Needs, Rule, Verdict, Window


class Between(Rule, frozen=True, kw_only=True):
    """Fires from step ``first`` on, and is clear after ``last``."""

    first: int = 3
    last: int = 10

    def needs(self) -> Needs:
        return Needs.of("losses", "value")

    def evaluate(self, window: Window) -> Verdict:
        if self.first <= window.step <= self.last:
            return Fired(f"step {window.step} is between {self.first} and {self.last}", suggestion="wait")
        return Clear()
