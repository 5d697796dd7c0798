"""What ``leadline doctor`` runs inside the training process."""
