"""Two-phase commit of sinks.

`writer` stages the output of a worker, `committer` prepares, commits and aborts, and `rollback` returns to the
checkpoint before one that can't be published.
"""
