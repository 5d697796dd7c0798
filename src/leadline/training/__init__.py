"""The training side: everything of Leadline that runs inside the training process."""
