"""Google BigQuery: `WriteToBigQuery` in `write`.

`client` has Google's clients, names of tables, and errors in words; `schemas` has the columns of tables; `values`
converts rows to what BigQuery takes, and back.  `tables` looks up and creates the tables that are written to, `rows`
converts elements, `streams` appends rows, `sinks` commits streams and runs load jobs, and `changes` changes rows by
their key.
"""
