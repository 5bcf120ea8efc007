"""Two-phase commit of sinks.

`writer` stages what a worker writes, `committer` prepares, commits and aborts, and `rollback` goes back to the
checkpoint before one that can't be published.
"""
