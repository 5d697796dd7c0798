"""Where Leadline touches a training: the guard, the step clock, what an adapter offers."""
