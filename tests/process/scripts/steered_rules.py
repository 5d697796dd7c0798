"""Rules for a steered training: one that fires while the loss is high, and one that is always undecided."""

from leadline.rules import Clear, Fired, Needs, Rule, Undecided


class High(Rule):
    limit: float = 100.0

    def needs(self):
        return Needs.of("losses", "value")

    def evaluate(self, window):
        highest = max((reading.value for reading in window.readings("value")), default=0.0)
        return Fired(f"the loss is {highest:.3g}") if highest > self.limit else Clear()


class Never(Rule):
    def needs(self):
        return Needs.of("losses", "value")

    def evaluate(self, window):
        return Undecided("it never has enough")
