"""Drawings of a pipeline's graph.

drawing.py  Mermaid, Graphviz, text, and HTML for notebooks
columns.py  the PCollections whose elements are columns, and where they are converted
layout.py   places of the boxes, in layers
"""
