"""What the adapters of frameworks have in common: named tensors, what is requested of them, and facts about losses."""
