"""DataFrames of Spark, for pipelines on Spark's runners.

`dataframes` has the transforms, `schema` derives columns from type hints, and `arrow_rows` converts rows.
"""
