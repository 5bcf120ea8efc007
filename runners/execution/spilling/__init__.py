"""Spilling: the memory of Python objects, and RocksDB for state that exceeds it."""
