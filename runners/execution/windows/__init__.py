"""The window operator: what a grouping holds for each key and window, and what it emits when (Dataflow Model, 2.2).

Two operators group by key and window (docs/decisions/009-two-window-operators.md):

bounded_operator.py    windows of a bounded input, each of which is emitted once
triggered_operator.py  windows with triggers, panes and lateness

They share:

combining.py           folding elements into accumulators, and merging those
merging.py             MergeWindows: which windows become one, and what the merged window keeps
keys.py                checks of pairs and keys

Windows with triggers:

window_state.py        the state of a window: of one key, or of all keys while they differ in accumulators only
window_table.py        the windows of all keys
window_timers.py       times at which windows are due, and holds of the output watermark
trigger_state.py       decisions of a trigger, shared by windows that are alike
firing.py              windows that are due: fired, and closed when they expire
panes.py               what a window emits, and what it retracts
retractions.py         inputs that may be retracted

Snapshots, and memory:

snapshots.py           window states as records: all, or those that have changed
spilled_windows.py     window states on disk
spilled_groups.py      values of large groups on disk

Elements that are columns:

columns/               cells and groups as columns
"""
