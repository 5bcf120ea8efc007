"""Stacks of other threads."""

from __future__ import annotations

import threading

from penstock.sdk.user_code.thread_stack import stack_of_thread


def test_the_stack_of_a_thread_that_waits() -> None:
    """With names beyond ASCII."""
    begun, leave = threading.Event(), threading.Event()

    def wärtér() -> None:
        begun.set()
        leave.wait()

    thread = threading.Thread(target=wärtér)
    thread.start()
    begun.wait()
    assert thread.ident is not None
    stack = stack_of_thread(thread.ident)
    leave.set()
    thread.join()

    (waiting,) = [entry for entry in stack if entry.name == "wärtér"]
    assert (__file__, "leave.wait()") == (waiting.filename, waiting.line)
    assert [] == stack_of_thread(thread.ident)
