"""Tables of SQL databases: `ReadFromSQL` in `source`, `WriteToSQL` and `WriteToSQLite` in `write`.

A sink is a `table_sink`: `rows` makes rows of elements, `changes` is the SQL for their net effect, and
`committed_transactions` notes what is committed. `database` connects, and `dialect` knows what databases write
differently.
"""
