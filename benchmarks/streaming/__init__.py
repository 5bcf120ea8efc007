"""Streams with snapshots: run time, latency, watermarks, pauses, and an hour at full rate."""
