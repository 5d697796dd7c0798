"""Step boundaries and the time of each phase of a step."""
