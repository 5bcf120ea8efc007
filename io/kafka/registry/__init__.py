"""The schema registry: keys and values of records in Avro, JSON Schema and Protobuf, as Rows.

`client` makes the registry's client, without secrets in texts; `formats` has what a schema's formats share;
`avro`, `json_schema` and `protobuf` are the formats.  `schema_registry` is what users call.
"""
