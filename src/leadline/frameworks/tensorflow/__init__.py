"""TensorFlow, with or without Keras on top of it."""
