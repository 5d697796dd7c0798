"""What a run's records come to: its phases, its use of the machine, its ranks, and what bound it."""
