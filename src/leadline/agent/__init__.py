"""One slim process per node: it owns the job, samples the machine, keeps the judge and tells the end."""
