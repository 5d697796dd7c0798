"""The adapter of JAX, with Flax, Optax, Equinox and Keras on JAX."""
