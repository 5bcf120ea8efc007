"""Bytes that leave a process: records by tag and version, columns of values, and pickles that may not be trusted."""
