"""Operators of a plan, wired together: each takes in bundles and moves watermarks and timers on."""
