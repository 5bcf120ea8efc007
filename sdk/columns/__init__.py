"""Elements as columns of Arrow.

expressions.py       `col`: expressions over fields, and operations on whole bundles
column_bundle.py     ColumnBundle: a bundle whose values are a record batch
column_elements.py   the values of a record batch as elements: rows, dictionaries, tuples, pairs
column_groups.py     the groups of a grouping as columns of lists
arrow_arithmetic.py  `/`, `//` and `%` of arrays, as Python computes them
arrow_fold.py        the folds of combiners by Arrow's aggregate functions
arrow_lists.py       the folds of columns to lists: distinct values, and the n greatest
pandas_functions.py  expressions that compute what pandas computes
nested_values.py     values of nested Arrow types as Python's own
"""
