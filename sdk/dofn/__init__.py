"""DoFns, and what is read from their declarations.

dofn.py             DoFn, and the markers of its parameters
signature.py        the arguments of a user's function
arrangement.py      a DoFn that arranges the parts of an element
hints.py            the types of a DoFn's elements
stateful_dofn.py    the states and timers of a DoFn
splittable_dofn.py  splittable DoFns: restrictions and their trackers
offset_range.py     the restriction that is a range of numbers
isolated_dofn.py    DoFns whose calls run in a thread or process of their own
batched_dofn.py     DoFns that take and yield batches
batch_bundle.py     a bundle whose values are such a batch
async_dofn.py       async DoFns
columns_dofn.py     DoFns of expressions over columns
"""
