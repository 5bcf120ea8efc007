"""Simulation of a job: time, chance and failures of a whole run come from a seed."""
