"""The agent: one small process per node that runs the job, samples the hardware and keeps the judge running."""
