"""NATS JetStream: `ReadFromNats` in `read`, `WriteToNats` in `write`.

`client` connects and explains errors; `pulling` reads ahead of a reader; `source` and `bounded` are the sources.
"""
