"""Beam's names, for programs that are written for Beam.

names.py   Beam's modules with their names, from names.txt
absent.py  names of Beam that penstock doesn't have: importable, and an error when used
"""
