"""Built-in algorithms of SageMaker: trainings from an image and hyperparameters, without a script."""
