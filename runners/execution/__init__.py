"""What every runner shares: the plan of a pipeline, its fused stages and operators, and what a checkpoint holds.

Packages build on those before them: `serialization`, `plan`, `spilling`, `windows` (GroupByKeyAndWindow), `stages`
(fused ParDos), `state` (ParDos with state and timers), `shuffle`, `operators` (all of them wired together), then the
two engines, `batch` and `streaming`.  `checkpoints` stores what a task keeps, and `sinks` commits what it writes.
"""
