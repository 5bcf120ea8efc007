"""Operators of a plan, wired together: they process bundles and advance watermarks and timers."""
