"""Keras on PyTorch; on TensorFlow the TensorFlow adapter serves it."""
