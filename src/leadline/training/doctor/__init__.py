"""``leadline doctor`` inside a training process: inventory and cost estimate."""
