"""The public interfaces of other tools over Leadline's own reader."""
