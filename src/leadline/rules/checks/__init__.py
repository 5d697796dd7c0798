"""Rules on what the probes of ``leadline check`` have found on a copy of the training."""
