"""Kafka: `ReadFromKafka` in `read`, `WriteToKafka` in `write`.

`source` has the partitions of topics as an unbounded source, `bounded` ranges of their offsets.  `sink` turns elements
into records; `publisher` commits staged records exactly once; `staging` keeps them until then.
`client` makes librdkafka's clients, and explains their errors; `serialization` reads and writes keys and values,
`registry/` those with schemas in a registry, and `decoding` names the records that can't be read.
"""
