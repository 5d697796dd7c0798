"""Rules for gradients, weights, activations and inputs."""
