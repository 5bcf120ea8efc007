"""Google BigQuery.

`client` has Google's clients, names of tables, and errors in words; `schemas` has the columns of tables; `values`
converts rows to what BigQuery takes, and back.
"""
