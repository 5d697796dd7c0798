"""The probes of `leadline check` on a step that is a pure function, as that of TensorFlow and JAX."""
