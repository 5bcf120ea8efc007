"""The page of a run: a server of JSON and of static files, in a process of its own; and drawings in notebooks.

run_model.py   what the events of a run say, as the documents of the API
bottleneck.py  the task that limits a run, and its probable cause
app.py         routes, and what is refused
serving.py     the HTTP server: connections, time limits
process.py     the process that serves a running job
directory.py   the pages of finished jobs, and of jobs in other processes, from their directory
notebook.py    StepByStep: a TestStream that a notebook draws after each event
static/        the page: HTML, CSS and JavaScript modules, without a build step

Nothing in penstock imports this package, except the command `penstock ui`: a job starts the server by its name.
"""
