"""The local batch engine: a bounded plan's tasks, in this process or in workers, and the commit at the end of the run.

`run` is the run, and its one task in this process.  `worker_tasks` schedules tasks of segments in the processes of
`workers`.
"""
