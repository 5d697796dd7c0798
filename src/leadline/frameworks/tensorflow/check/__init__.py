"""The checks of a training with TensorFlow and Keras."""
