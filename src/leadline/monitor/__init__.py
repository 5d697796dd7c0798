"""System monitoring: samples the machine and the job's processes; unreadable values are absent, never 0."""
