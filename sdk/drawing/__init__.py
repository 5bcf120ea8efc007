"""Drawings of a pipeline's graph, and of the panes of its groupings.

drawing.py  Mermaid, Graphviz, text, and HTML for notebooks
columns.py  the PCollections whose elements are columns, and where they are converted
layout.py   places of the boxes, in layers
panes.py    PaneRecording: the elements, the watermark and the panes of a step and key, as JSON
figure.py   a recording as a drawing of event time against processing time, as in the Dataflow paper
render.py   a drawing as SVG and PNG
"""
