"""The window operator: what a grouping holds for each key and window, and what it emits when (Dataflow Model, 2.2).

The cells of keys and windows, and what is added to them:

cell_table.py          cells by window and key; and the operator that emits each window once, of a bounded input
combining.py           accumulators: adding elements, merging, results
retractions.py         accumulators of inputs that may be retracted
merging.py             MergeWindows: which windows become one, and what the merged window keeps

Windows with triggers:

triggered_operator.py  the operator: adds elements, asks triggers, moves clocks
window_state.py        the state of a window: of one key, or of all keys while they differ in accumulators only
window_table.py        the table of cells with the states of windows, their due times and holds
merging_table.py       the same where windows merge, element by element
trigger_state.py       decisions of a trigger, shared by windows that are alike
firing.py              windows that are due: the panes that they emit and retract, and their end

Snapshots, and memory:

snapshots.py           window states as records: all, or those that have changed
spilled_windows.py     window states on disk
spilled_cells.py       cells of windows on disk, by key group
spilled_groups.py      values of large groups on disk

Elements that are columns:

columns/               cells and groups as columns
"""
