"""Control requests of users to a running job, shared by the command line and the dashboard."""
