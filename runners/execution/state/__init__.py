"""ParDos with state and timers: `stateful_pardo` runs one, on `keyed_state` and `timers`."""
