"""Micro-batches: `query` plans, runs, commits and publishes batch after batch.

A batch is one Spark job (`driver_job`), whose RDDs (`task_rdds`) run a task's subtasks (`subtask`) in executors.
`commit_log` says which batch was committed last, and `recovery` where a run goes on.
"""
