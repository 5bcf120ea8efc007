"""Triggers of other triggers.

composite.py    Composite: their base class
repeatedly.py   Repeatedly: a trigger that restarts
after_each.py   AfterEach: triggers in sequence
after_any.py    AfterAny: OR of triggers
after_all.py    AfterAll: AND of triggers
or_finally.py   OrFinally: a trigger until another one finishes
"""
