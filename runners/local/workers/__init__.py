"""Workers: processes, forked or spawned, whose slots run subtasks, and the snapshots that they write."""
