"""What a process has once: shared objects, settings that its workers have too, and the name of its task.

shared.py             one object for all DoFns of a process
carried_settings.py   settings of a process that worker processes have, too
impersonation.py      the service account of Google Cloud that clients act as
task_name.py          the name of the running task, from which DoFns derive keys of their own
working_directory.py  absolute forms of relative paths
"""
