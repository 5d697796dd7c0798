"""The checks of a training with JAX."""
