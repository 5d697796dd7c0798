"""Checks of the training loop, and what ``leadline doctor`` reports of it."""
