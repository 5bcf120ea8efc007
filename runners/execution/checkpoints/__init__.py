"""Checkpoints in durable storage: written in parts by many workers, and committed by one manifest.

`store` writes them, `reader` restores them whole or not at all, and `catalog` lists a directory.  `storage` is the file
system or object store below, and `simulated_storage` one with failures, torn files and crashes, drawn from a seed.
"""
