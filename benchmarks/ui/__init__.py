"""The page of a run: what it costs the job."""
