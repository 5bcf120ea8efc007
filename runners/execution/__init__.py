"""The parts that all runners share: the plan of a pipeline, its fused stages and operators, and checkpoints.

Packages build on those before them: `serialization`, `plan`, `spilling`, `windows` (GroupByKeyAndWindow), `stages`
(fused ParDos), `state` (ParDos with state and timers), `shuffle`, `operators` (all of them wired together), then the
two engines, `batch` and `streaming`.  `checkpoints` stores the state of tasks, and `sinks` commits their output.
"""
