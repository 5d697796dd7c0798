"""Starts of Python processes by forking one that has everything imported, for the tests that start hundreds of them.

A process whose starts are replaced (`client`) has a *server*: a child that has imported the framework and Leadline,
and waits. The server forks twice, and its parent, which is a subreaper meanwhile, adopts the grandchild: a real child,
with the pid, process group, session, signals, descriptors, limits and environment of a started one. The new process
(`child`) sets aside what was imported (`imported`), and runs its module or script, whose imports take back what they
name. If it is one of Leadline's, it begins with a fork of its own that becomes its server: it starts further ones.

Started for real are: every command that is not a plain ``python [-P] [-u] -m leadline...``, ``python -m
torch.distributed.run`` or ``python script`` of an environment of this project, one whose environment could change what
is imported or how, one with a function that runs before ``exec``, and everything within ``client.real_starts()``.
"""
