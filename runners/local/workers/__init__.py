"""Workers: processes, forked from a template or spawned, whose slots run subtasks, and their snapshots."""
