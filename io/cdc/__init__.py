"""Change data capture: the changes of tables as rows with signs.

debezium.py            FromDebezium: the envelopes that Debezium writes to Kafka's topics and elsewhere
logical_types.py       the values of an envelope by its schema: dates, times, decimals
postgres.py            ReadFromPostgresChanges: tables of PostgreSQL, from a replication slot
postgres_source.py     the snapshot and the changes as a source, which waits for a lost server
postgres_rows.py       the rows of tables as a bounded source
postgres_log.py        changes that the server has decoded, and positions in checkpoints
postgres_snapshot.py   the rows that tables had where the slot begins
postgres_slot.py       the slot and its publication: made, checked, read and advanced
postgres_tables.py     tables in the catalog, and rows from texts
postgres_server.py     connections, and errors without secrets
pgoutput.py            the messages of PostgreSQL's plugin
row_change.py          an added or removed row, and the elements with signs that it becomes
sequenced_rows.py      the latest row of each key, by the sequence of its change
unavailable_value.py   what Debezium writes for a value that didn't change and that the database didn't log
"""
