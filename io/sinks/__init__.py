"""Sinks: what those of connectors share.

write_into.py     WriteInto: the base class of the transforms that write into a sink
opened_sink.py    OpenedSink: the base class of sinks that keep something open between calls
message_sink.py   MessageSink: the base class of sinks whose messages are part of a checkpoint until it is complete
record_blocks.py  records of a writer's token, in compressed blocks
net_changes.py    what signed changes of keys come to
dead_letters.py   records that a sink's target refuses
"""
