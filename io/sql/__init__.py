"""Tables of SQL databases: `ReadFromSQL` in `source`, `WriteToSQL` and `WriteToSQLite` in `write`.

A sink is a `table_sink`: `rows` makes rows of elements, `staging` collects those of a worker, `changes` is the SQL for
their net effect, and `committed_transactions` records the commits.  `named_table` is the table in errors.  `database`
connects, and `dialect` has the differences between databases.
"""
