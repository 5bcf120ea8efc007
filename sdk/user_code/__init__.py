"""Users' functions and their exceptions.

serialization.py  pickling of functions, DoFns and combiners
pickler.py        the pickler of classes with typed fields
signatures.py     cached signatures of functions, and their labels
error_text.py     short texts of users' exceptions
own_code.py       recognition of penstock's own frames
step_slot.py      the step that a thread is in, and the times of steps
thread_stack.py   the stack of another thread
protobuf_classes.py  pickling of Protobuf's generated code by value
"""
