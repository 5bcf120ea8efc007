"""Execution of a function's bytecode with types, along all of its branches.

What isn't known is `Any`: the result of an unknown function, code with an instruction that has no rule, and code that
is too large.  Inference calls no function of the user, and raises no error.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, Never

from ...elements.element_wrappers import SPECIAL_TYPES
from ..callables import hints_of_callable
from ..inference import infer_type
from ..parts import element_of
from ..schema import schemas_of
from ..simplified import class_and_args, members, simplified, union_of
from .calls import of_call, of_method
from .instructions import (
    Instructions,
    Known,
    Made,
    Method,
    UnknownInstructionError,
    attribute,
    joined,
    not_none,
    of_variable,
    type_of,
)

_IS_SUPPORTED = (3, 11) <= sys.version_info < (3, 15)
_POPS_ITERATOR = sys.version_info < (3, 12)

# Limits of the depth of calls, and of the lines of a function and of those that it calls.
DEPTH = 5
_LINES = 150
# A limit of the types that variables take one after the other, where branches meet, for loops in which types grow.
_CHANGES = 20
# A limit of executed instructions, which few functions of so many lines reach: it depends on the version of Python.
_STEPS = 10_000

# The last instructions of branches.  A context manager is assumed to raise the exceptions that it is given.
_ENDS = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "WITH_EXCEPT_START", "CLEANUP_THROW")


def infer_result(fn: Any, inputs: Iterable[Any], depth: int = DEPTH) -> Any:
    """Return the result type of a function for positional arguments of these types; `Any` if it is unknown.

    Annotations of the function itself aren't considered, and its defaults are unknown.

    Args:
      depth: how many calls of other functions are followed, one inside the other.

    >>> infer_result(lambda line: [(word, 1) for word in line.split()], [str])
    list[tuple[str, int]]
    >>> infer_result(lambda x: x.unknown(), [int])
    typing.Any
    """
    if not _IS_SUPPORTED:
        return Any
    try:
        return _finished(
            _Calls(depth, _Budget()).result(fn, [one if schemas_of(one) else simplified(one) for one in inputs], {})
        )
    except Exception:
        # Objects of user code may raise anything when an attribute is read, and hints when they are compared.
        return Any


def _finished(hint: Any) -> Any:
    """Return a type without `Never`, the type of the elements of an empty container."""
    alternatives = members(hint)
    if alternatives is not None:
        return union_of([_finished(one) for one in alternatives])
    kind, args = class_and_args(hint)
    if Never in args:
        return kind
    if kind in (list, set, dict, tuple) and args and not {(), Ellipsis} & set(args):
        return kind[tuple(map(_finished, args))]
    return hint


class _State(NamedTuple):
    stack: tuple[Any, ...]
    local: dict[str, Any]

    def joined(self, other: _State, parameters: frozenset[str]) -> _State:
        """Return the state after two branches.

        Where only one of them assigns a variable, it has that type, since a use after the other one raises an error; an
        argument isn't known, instead.
        """
        if len(self.stack) != len(other.stack):
            raise UnknownInstructionError("branches with stacks of different depths")
        common = self.local.keys() & other.local.keys()
        return _State(
            tuple(map(joined, self.stack, other.stack)),
            {name: joined(self.local[name], other.local[name]) for name in common}
            | {
                name: entry
                for name, entry in (self.local | other.local).items()
                if name not in common and name not in parameters
            },
        )


class _Budget:
    """The lines and the instructions that are left for a function, which the functions that it calls share."""

    def __init__(self) -> None:
        self.lines = _LINES
        self.steps = _STEPS

    def spend(self, lines: int = 0, steps: int = 0) -> None:
        """Raise `UnknownInstructionError` if there aren't as many."""
        self.lines -= lines
        self.steps -= steps
        if self.lines < 0 or self.steps < 0:
            raise UnknownInstructionError("the code is too large")


class _Calls:
    """Results of calls, followed to a depth.

    Args:
      callers: the functions around, the outermost first.
    """

    def __init__(self, depth: int, budget: _Budget, callers: tuple[FunctionType, ...] = ()) -> None:
        self.depth = depth
        self.budget = budget
        self.callers = callers

    def result(self, fn: Any, args: list[Any], keywords: Mapping[str, Any]) -> Any:
        """Return the type of the result of a function; arguments are entries of the stack."""
        if isinstance(fn, functools.partial):
            bound = [infer_type([arg]) for arg in fn.args]
            named = {name: infer_type([value]) for name, value in fn.keywords.items()}
            return self.result(fn.func, [*bound, *args], named | dict(keywords))
        if isinstance(fn, MethodType):
            return self.result(fn.__func__, [Known(fn.__self__), *args], keywords)
        if isinstance(fn, FunctionType):
            return self._of_function(fn, args, keywords)
        call = inspect.getattr_static(type(fn), "__call__", None)
        if isinstance(call, FunctionType) and not isinstance(fn, type):
            return self._of_function(call, [Known(fn), *args], keywords)
        types = [type_of(arg) for arg in args]
        owner = getattr(fn, "__self__", None)
        if isinstance(fn, BuiltinFunctionType) and not (owner is None or isinstance(owner, (ModuleType, type))):
            return of_method(type(owner), fn.__name__, types)
        return (
            fn
            if isinstance(fn, type) and fn in SPECIAL_TYPES
            else of_call(fn, types, {name: type_of(entry) for name, entry in keywords.items()})
        )

    def _is_followed(self, fn: Any) -> bool:
        """Return whether a function is of the same top-level package as its caller, and doesn't call itself."""
        fn = getattr(fn, "__func__", fn)
        if not self.callers or not isinstance(fn, FunctionType):
            return True
        package = str(fn.__module__).partition(".")[0]
        return package == str(self.callers[0].__module__).partition(".")[0] and fn not in self.callers

    def _of_function(self, fn: FunctionType, args: list[Any], keywords: Mapping[str, Any]) -> Any:
        code = fn.__code__
        positional = code.co_varnames[: code.co_argcount]
        defaults: dict[str, Any] = {}
        if self.callers:
            # Further arguments of a transform may be given in place of the outermost function's.
            defaults |= zip(reversed(positional), map(of_variable, reversed(fn.__defaults__ or ())))
            defaults |= {name: of_variable(value) for name, value in (fn.__kwdefaults__ or {}).items()}
        cells = {}
        for name, cell in zip(code.co_freevars, fn.__closure__ or ()):
            try:
                cells[name] = of_variable(cell.cell_contents)
            except ValueError:
                # Not assigned yet.
                cells[name] = Any
        calls = _Calls(self.depth, self.budget, (*self.callers, fn))
        run = _Run(code, fn.__globals__, cells, calls)
        self.budget.spend(lines=run.decoded.lines)
        return run.run(args, keywords, defaults)

    def inside(self, fn: Any, args: list[Any], keywords: Mapping[str, Any]) -> Any:
        """Return the type of the result of a function that another one calls."""
        if isinstance(fn, Method):
            kind = class_and_args(simplified(fn.receiver))[0]
            found = inspect.getattr_static(kind, fn.name, None) if kind is not None else None
            if not isinstance(found, FunctionType):
                return of_method(fn.receiver, fn.name, [type_of(arg) for arg in args])
            fn, args = Known(found), [fn.receiver, *args]
        if not isinstance(fn, Known):
            return Any
        if fn.value is getattr and len(args) == 2 and isinstance(args[1], Known) and isinstance(args[1].value, str):
            return type_of(attribute(args[0], args[1].value))
        if isinstance(fn.value, (FunctionType, MethodType)):
            declared = hints_of_callable(fn.value)[1]
            if declared is not None:
                return declared
            if self.depth == 0 or not self._is_followed(fn.value):
                return Any
        return _Calls(max(0, self.depth - 1), self.budget, self.callers).result(fn.value, args, keywords)


class _Run(Instructions):
    """Execution of one function."""

    def __init__(self, code: CodeType, scope: Mapping[str, Any], cells: Mapping[str, Any], calls: _Calls) -> None:
        super().__init__(code, scope, cells)
        self.code = code
        self.calls = calls
        # By the instruction, as those that are yielded.
        self.returned: dict[int, Any] = {}

    def call(self, fn: Any, args: list[Any], keywords: Mapping[str, Any]) -> Any:
        if isinstance(fn, Made):
            return _Run(fn.code, self.scope, fn.cells, self.calls).run(args, keywords, {})
        return self.calls.inside(fn, args, keywords)

    def run(self, args: list[Any], keywords: Mapping[str, Any], defaults: Mapping[str, Any]) -> Any:
        """Return the type of the result."""
        code = self.code
        names = code.co_varnames
        if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            return Any
        local = {**defaults, **dict(zip(names[: code.co_argcount], args)), **keywords}
        if code.co_flags & inspect.CO_VARARGS:
            rest = [type_of(arg) for arg in args[code.co_argcount :]]
            local[names[code.co_argcount + code.co_kwonlyargcount]] = tuple[tuple(rest)] if rest else tuple  # type: ignore[misc]
        if "isinstance" in code.co_names or "type" in code.co_names:
            # Branches on the class of a value aren't told apart.
            local = {name: Any if members(type_of(entry)) else entry for name, entry in local.items()}
        self._execute(_State((), local))
        if code.co_flags & inspect.CO_GENERATOR:
            return Iterable[union_of(list(self.yielded.values()))] if self.yielded else Any  # type: ignore[misc]
        return functools.reduce(joined, self.returned.values()) if self.returned else Any

    def _execute(self, start: _State) -> None:
        states = {0: start}
        changes: Counter[int] = Counter()
        todo = {0}
        code = self.code
        others = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        parameters = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + others])
        while todo:
            # A loop before what is behind it, which then has the types of all rounds.
            at = min(todo)
            todo.discard(at)
            for target, state in self._branches(at, states):
                before = states.get(target)
                after = state if before is None else before.joined(state, parameters)
                if after != before:
                    states[target] = after
                    changes[target] += 1
                    if changes[target] > _CHANGES:
                        raise UnknownInstructionError("types that grow in a loop")
                    todo.add(target)

    def _branches(self, at: int, states: dict[int, _State]) -> list[tuple[int, _State]]:
        """Execute instructions up to the next branch or jump target; return where it leads, with the states there."""
        state = states[at]
        while True:
            self.calls.budget.spend(steps=1)
            following = list(self._step(at, state))
            if len(following) != 1 or self.decoded.instructions[following[0][0]].is_jump_target:
                return following
            at, state = following[0]

    def _step(self, at: int, state: _State) -> Iterator[tuple[int, _State]]:
        """Yield the indices of the instructions that may be next, with their states."""
        instruction = self.decoded.instructions[at]
        for handler in self.decoded.handlers:
            if handler.start <= instruction.offset < handler.end:
                caught = (*state.stack[: handler.depth], *([Any] * (2 if handler.lasti else 1)))
                yield self.decoded.indices[handler.target], _State(caught, state.local)
        stack, local = list(state.stack), dict(state.local)
        name = instruction.opname
        if name in _ENDS:
            if name == "RETURN_CONST":
                self.returned[at] = infer_type([instruction.argval])
            elif name == "RETURN_VALUE":
                self.returned[at] = type_of(stack[-1])
        elif name in ("FOR_ITER", "SEND"):
            yield from self._iterate(at, instruction, stack, local)
        elif "JUMP" in name:
            yield from self._jump(at, instruction, stack, local)
        else:
            rule = getattr(self, f"op_{name.lower()}", None)
            if rule is None:
                raise UnknownInstructionError(name)
            rule(instruction, stack, local)
            yield at + 1, _State(tuple(stack), local)

    def _iterate(
        self, at: int, instruction: Any, stack: list[Any], local: dict[str, Any]
    ) -> Iterator[tuple[int, _State]]:
        sends = instruction.opname == "SEND"
        if sends:
            stack.pop()
        yield at + 1, _State((*stack, element_of(type_of(stack[-1]))), local)
        if not _POPS_ITERATOR:
            stack.append(Any)
        else:
            stack[-1:] = [Any] if sends else []
        yield self.decoded.indices[instruction.argval], _State(tuple(stack), local)

    def _jump(self, at: int, instruction: Any, stack: list[Any], local: dict[str, Any]) -> Iterator[tuple[int, _State]]:
        name = instruction.opname
        target = self.decoded.indices[instruction.argval]
        if "IF" not in name:
            yield target, _State(tuple(stack), local)
        elif name.endswith("_OR_POP"):
            kept = stack[-1] if "FALSE" in name else not_none(stack[-1])
            yield target, _State((*stack[:-1], kept), local)
            yield at + 1, _State(tuple(stack[:-1]), local)
        else:
            stack.pop()
            # In the branch of a true value, or one that isn't None, the type of the tested one excludes None.
            jumps_if_set = name.endswith(("TRUE", "NOT_NONE"))
            tested = self.decoded.instructions[at - 1]
            if tested.opname == "TO_BOOL":
                tested = self.decoded.instructions[at - 2]
            for index, is_set in ((target, jumps_if_set), (at + 1, not jumps_if_set)):
                yield index, _narrowed(tested, stack, local) if is_set else _State(tuple(stack), local)


def _narrowed(tested: Any, stack: list[Any], local: dict[str, Any]) -> _State:
    # Instructions that load several variables load the tested one last.
    name = tested.argval[-1] if isinstance(tested.argval, tuple) else tested.argval
    if ("LOAD_FAST" in tested.opname or tested.opname == "LOAD_DEREF") and name in local:
        return _State(tuple(stack), local | {name: not_none(local[name])})
    if tested.opname == "COPY" and tested.arg == 1:
        return _State((*stack[:-1], not_none(stack[-1])), local)
    return _State(tuple(stack), local)
