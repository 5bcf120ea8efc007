"""Change data capture: the changes of tables as rows with signs.

debezium.py            FromDebezium: the envelopes that Debezium writes to Kafka's topics and elsewhere
logical_types.py       the values of an envelope by its schema: dates, times, decimals
row_change.py          an added or removed row, and the elements with signs that it becomes
"""
