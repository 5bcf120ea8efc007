"""Transforms of single elements, and branches that look at them.

regex.py         Regex: regular expressions
to_string.py     ToString: elements as text
log_elements.py  LogElements: prints or logs elements
tee.py           Tee: a branch of a chain of transforms
"""
