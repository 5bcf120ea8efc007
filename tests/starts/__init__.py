"""Starts of workers from a program that can't be forked."""
