"""The page of a running job, on the job's side: what the job records, and the process that serves it.

In reading order: events and their log (`event_log`), the graph that is drawn (`description`), the thread that
feeds the page (`feed`), and profiles of a thread (`profiles`).  The server is in `penstock.ui`, which runs in a process
of its own.
"""
