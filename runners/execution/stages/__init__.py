"""Fused stages: ParDos, AssignWindows and folds as one generated function for each shape of bundle.

`executor` sets a stage up, compiles it and runs it.  `codegen` and `window_codegen` write the function.  `side_inputs`
keeps the contents of side inputs.
"""
