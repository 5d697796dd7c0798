"""What the adapters of all frameworks stand on in the training process: steps, their timing, guarded calls."""
