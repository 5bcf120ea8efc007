"""Columns in the bounded window operator, for elements that are columns.

windowed_columns.py    rows with their windows, their results, and their blocks
folded_columns.py      the cells of a combining grouping
grouped_columns.py     the groups of a plain grouping
"""
