"""Drawings of a pipeline's graph.

drawing.py  Mermaid, Graphviz, text, and HTML for notebooks
layout.py   places of the boxes, in layers
"""
