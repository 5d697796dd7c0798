"""Where Leadline touches a training: the guard, the step clock, the post-import hooks."""
