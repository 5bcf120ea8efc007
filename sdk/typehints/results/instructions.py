"""The effect of each instruction of the bytecode on a stack of types, and on the types of variables.

An entry of the stack is a type, or what is known of a value beyond its type: `Known`, `Method` or `Made`.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, Never

from ..describe import describe
from ..inference import infer_type
from ..parts import element_of
from ..simplified import NoneType, class_and_args, members, simplified, union_of
from .calls import of_attribute, of_operator, of_subscript

NULL = object()

Stack = list[Any]
Locals = dict[str, Any]

# The number of a union's members above which a type is unknown.
_ALTERNATIVES = 6

_CONSTANTS = (int, float, complex, str, bytes, bool)
_MUTATORS = frozenset(["append", "extend", "insert", "add", "update", "setdefault", "appendleft", "extendleft"])
_MUTABLE = (list, dict, set)
# Classes with parts, whose union is of one class.
_PARTED = (tuple, list, dict, set, frozenset, Iterator, Iterable)


class Known(NamedTuple):
    """A constant, a function, a class, a module, or the object whose method is executed."""

    value: Any


class Method(NamedTuple):
    """A method of a value of which only the type is known."""

    receiver: Any
    name: str


class Made(NamedTuple):
    """A function that the code makes: a lambda or a comprehension."""

    code: CodeType
    cells: Mapping[str, Any]


class Cells(NamedTuple):
    """The entries of the variables that a function encloses."""

    entries: tuple[Any, ...]


class Changing(NamedTuple):
    """The present value of a variable of inner functions, which may have another one when these are called."""

    entry: Any


class UnknownInstructionError(Exception):
    """An instruction without a rule, or code that is too large."""


def type_of(entry: Any) -> Any:
    """Return the type of an entry.

    >>> type_of(Known((1, "a"))), type_of(int)
    (tuple[int, str], <class 'int'>)
    """
    if isinstance(entry, Known):
        value = entry.value
        return Any if isinstance(value, (ModuleType, type)) or callable(value) else infer_type([value])
    return Any if entry is NULL or isinstance(entry, (Method, Made)) else entry


def joined(one: Any, other: Any) -> Any:
    """Return an entry for two values, of two branches."""
    if one is other or (type(one) is type(other) and one == other):
        return one
    return _union([type_of(one), type_of(other)])


def _union(hints: list[Any]) -> Any:
    """Return the union of types; of tuples or containers of one class, the one with the unions of their parts.

    Versions of Python differ in where branches meet: before a tuple is made of two values, or behind it.
    """
    by_shape: dict[Any, list[tuple[Any, tuple[Any, ...]]]] = {}
    for one in dict.fromkeys(part for hint in hints for part in members(hint) or (hint,)):
        if one is not Never:
            kind, args = class_and_args(one)
            is_plain = kind in _PARTED and args and not {(), Ellipsis} & set(args)
            by_shape.setdefault((kind, len(args)) if is_plain else one, []).append((one, args))
    if not by_shape:
        return Never
    parts = [_with_unions(alike) for alike in by_shape.values()]
    # The order of branches depends on the version of Python, too.
    hint = union_of(sorted(parts, key=lambda one: (one is NoneType, describe(one))) if len(parts) > 1 else parts)
    alternatives = members(hint)
    return Any if alternatives and len(alternatives) > _ALTERNATIVES else hint


def _with_unions(alike: list[tuple[Any, tuple[Any, ...]]]) -> Any:
    """Return one type for types of one class, given with their parts."""
    hint = alike[0][0]
    if len(alike) == 1:
        return hint
    return class_and_args(hint)[0][tuple(_union(list(parts)) for parts in zip(*(args for _, args in alike)))]


def not_none(entry: Any) -> Any:
    """Return an entry for a value that isn't None."""
    alternatives = members(type_of(entry))
    return entry if alternatives is None else union_of([one for one in alternatives if one is not NoneType])


def of_variable(value: Any) -> Any:
    """Return an entry for a global or enclosing variable, which may be assigned another value before the run."""
    if isinstance(value, (ModuleType, type)) or callable(value):
        return Known(value)
    return infer_type([value]) if type(value) in (*_CONSTANTS, tuple) else Any


def attribute(entry: Any, name: str) -> Any:
    """Return an entry for an attribute of a value."""
    if not isinstance(entry, Known) or isinstance(entry.value, (*_CONSTANTS, tuple)):
        hint = type_of(entry)
        found = of_attribute(hint, name)
        return Method(hint, name) if found is Any else found
    of = entry.value
    if isinstance(of, ModuleType):
        # Other modules may import on access what isn't installed or takes long.
        is_own = "penstock" in (of.__name__.partition(".")[0], type(of).__module__.partition(".")[0])
        return of_variable(getattr(of, name) if is_own else vars(of)[name]) if is_own or name in vars(of) else Any
    if isinstance(of, type):
        found = inspect.getattr_static(of, name, None)
        return Known(getattr(of, name)) if _is_function(found) else Any
    found = inspect.getattr_static(type(of), name, None)
    if isinstance(found, FunctionType):
        return Known(MethodType(found, of))
    if _is_function(found):
        return Known(getattr(of, name))
    own = getattr(of, "__dict__", {}).get(name)
    return Any if found is not None or own is None else of_variable(own)


def _is_function(found: Any) -> bool:
    return isinstance(found, (FunctionType, staticmethod, classmethod)) or inspect.ismethoddescriptor(found)


def _unpacked(hint: Any, count: int) -> list[Any]:
    """Return the types of the items of a value that is unpacked into `count` variables."""
    kind, args = class_and_args(simplified(hint))
    if kind is not None and issubclass(kind, tuple) and len(args) == count and Ellipsis not in args:
        return list(args)
    return [element_of(hint)] * count


class Decoded(NamedTuple):
    """The instructions of a function.

    Attributes:
      indices: the index of each instruction by its offset.
      handlers: the entries of the exception table.
      lines: the number of its lines, comments and documentation included.
      changes: whether it may change containers that it made.
      reassigned: variables of inner functions that have several values while these may be called.
      unknown: variables that inner functions assign.
    """

    instructions: list[dis.Instruction]
    indices: dict[int, int]
    handlers: list[Any]
    lines: int
    changes: bool
    reassigned: frozenset[str]
    unknown: frozenset[str]


# Functions that are made in one place have equal code.
@lru_cache(maxsize=256)
def decoded(code: CodeType) -> Decoded:
    """Return the instructions of a function, without being executed."""
    instructions = list(dis.get_instructions(code))
    table: Any = dis.Bytecode(code)
    return Decoded(
        instructions,
        {one.offset: i for i, one in enumerate(instructions)},
        list(table.exception_entries) if code.co_exceptiontable else [],
        max((line for _, _, line in code.co_lines() if line), default=0) - code.co_firstlineno + 1,
        any(
            one.opname in ("STORE_SUBSCR", "STORE_SLICE")
            or (one.opname in ("LOAD_ATTR", "LOAD_METHOD") and one.argval in _MUTATORS)
            or (one.opname == "BINARY_OP" and one.argrepr.endswith("="))
            for one in instructions
        ),
        _reassigned(code, instructions),
        frozenset(name for inner in _inner(code) for name in _assigned_outside(inner)),
    )


def _inner(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _reassigned(code: CodeType, instructions: list[dis.Instruction]) -> frozenset[str]:
    stored = [one.argval for one in instructions if one.opname == "STORE_DEREF"]
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return frozenset(name for name in stored if name in parameters or stored.count(name) > 1)


def _assigned_outside(code: CodeType) -> set[str]:
    """Return the variables of enclosing functions that a function and its inner functions assign (`nonlocal`)."""
    own = {one.argval for one in dis.get_instructions(code) if one.opname == "STORE_DEREF"}
    return own.union(*map(_assigned_outside, _inner(code))) & set(code.co_freevars)


class Instructions:
    """The rules, by the instructions' names: `op_binary_op` and so on.

    Args:
      scope: the function's global variables.
      cells: entries of enclosing variables by name.
    """

    def __init__(self, code: CodeType, scope: Mapping[str, Any], cells: Mapping[str, Any]) -> None:
        self.scope = scope
        self.cells = cells
        self.constants = code.co_consts
        self.enclosed = {*code.co_cellvars, *code.co_freevars}
        self.own_cells = frozenset(code.co_cellvars)
        self.decoded = decoded(code)
        # By the instruction, whose last execution is with the types of all branches.
        self.yielded: dict[int, Any] = {}
        self.keyword_names: tuple[str, ...] = ()

    def call(self, fn: Any, args: list[Any], keywords: Mapping[str, Any]) -> Any:
        """Return the type of the result of a call."""
        raise NotImplementedError

    # Loads and stores

    def _ignore(self, at: Any, stack: Stack, local: Locals) -> None:
        pass

    op_nop = op_resume = op_precall = op_cache = op_copy_free_vars = op_make_cell = op_to_bool = _ignore
    op_extended_arg = op_delete_fast = op_setup_annotations = op_not_taken = _ignore

    def _load(self, name: str, local: dict[str, Any]) -> Any:
        return local.get(name, Any)

    def _store(self, name: str, entry: Any, local: dict[str, Any]) -> None:
        kind = class_and_args(type_of(entry))[0]
        local[name] = kind if self.decoded.changes and kind in _MUTABLE else entry

    def op_load_const(self, at: Any, stack: Stack, local: Locals) -> None:
        stack.append(Known(at.argval))

    op_load_small_int = op_load_const

    def op_load_fast(self, at: Any, stack: Stack, local: Locals) -> None:
        names = at.argval if isinstance(at.argval, tuple) else (at.argval,)
        stack.extend(
            # Python 3.13 loads a closure as any other variable.
            self._closure(at, name, local) if name in self.enclosed else self._load(name, local)
            for name in names
        )

    op_load_fast_check = op_load_fast_load_fast = op_load_fast
    op_load_fast_borrow = op_load_fast_borrow_load_fast_borrow = op_load_fast

    def op_load_fast_and_clear(self, at: Any, stack: Stack, local: Locals) -> None:
        stack.append(local.pop(at.argval, NULL))

    def op_store_fast(self, at: Any, stack: Stack, local: Locals) -> None:
        entry = stack.pop()
        if entry is NULL:
            local.pop(at.argval, None)
        else:
            self._store(at.argval, entry, local)

    def op_store_fast_store_fast(self, at: Any, stack: Stack, local: Locals) -> None:
        for name in at.argval:
            self._store(name, stack.pop(), local)

    def op_store_fast_load_fast(self, at: Any, stack: Stack, local: Locals) -> None:
        stored, loaded = at.argval
        self._store(stored, stack.pop(), local)
        stack.append(self._load(loaded, local))

    def op_load_deref(self, at: Any, stack: Stack, local: Locals) -> None:
        stack.append(self._enclosed(at.argval, local))

    def _enclosed(self, name: str, local: Locals) -> Any:
        is_known = name in local and name not in self.decoded.unknown
        entry = local[name] if is_known else self.cells.get(name, Any)
        return entry.entry if isinstance(entry, Changing) else entry

    def op_load_closure(self, at: Any, stack: Stack, local: Locals) -> None:
        stack.append(self._closure(at, at.argval, local))

    def _closure(self, at: Any, name: str, local: Locals) -> Any:
        entry = self._enclosed(name, local)
        if name not in self.decoded.reassigned and not isinstance(self.cells.get(name), Changing):
            return entry
        return Changing(entry) if self._is_of_comprehension(at) else Any

    def _is_of_comprehension(self, at: Any) -> bool:
        """Return whether a closure is of a comprehension, which is a function in Python 3.11, and called at once."""
        following = self.decoded.instructions[self.decoded.indices[at.offset] :]
        made = next((one.argval for one in following if isinstance(one.argval, CodeType)), None)
        return made is not None and made.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>")

    def op_store_deref(self, at: Any, stack: Stack, local: Locals) -> None:
        entry = stack.pop()
        if at.argval in self.own_cells:
            self._store(at.argval, entry, local)

    def op_store_global(self, at: Any, stack: Stack, local: Locals) -> None:
        stack.pop()

    op_pop_top = op_pop_except = op_pop_iter = op_store_global

    def op_load_global(self, at: Any, stack: Stack, local: Locals) -> None:
        name = at.argval
        missing = object()
        value = self.scope.get(name, getattr(builtins, name, missing))
        self._push_callable(stack, Any if value is missing else of_variable(value), at.arg & 1)

    def _push_callable(self, stack: list[Any], entry: Any, with_null: Any) -> None:
        stack.extend([NULL, entry] if with_null else [entry])

    def op_push_null(self, at: Any, stack: Stack, local: Locals) -> None:
        stack.append(NULL)

    def op_load_attr(self, at: Any, stack: Stack, local: Locals) -> None:
        is_method = at.opname == "LOAD_METHOD" or (sys.version_info >= (3, 12) and at.arg & 1)
        self._push_callable(stack, attribute(stack.pop(), at.argval), is_method)

    op_load_method = op_load_attr

    def op_load_super_attr(self, at: Any, stack: Stack, local: Locals) -> None:
        del stack[-3:]
        self._push_callable(stack, Any, at.arg & 1)

    def op_store_attr(self, at: Any, stack: Stack, local: Locals) -> None:
        del stack[-2:]

    op_delete_subscr = op_store_attr

    def op_store_subscr(self, at: Any, stack: Stack, local: Locals) -> None:
        del stack[-3:]

    def op_store_slice(self, at: Any, stack: Stack, local: Locals) -> None:
        del stack[-4:]

    def op_copy(self, at: Any, stack: Stack, local: Locals) -> None:
        stack.append(stack[-at.arg])

    def op_swap(self, at: Any, stack: Stack, local: Locals) -> None:
        stack[-1], stack[-at.arg] = stack[-at.arg], stack[-1]

    # Operators

    def op_binary_op(self, at: Any, stack: Stack, local: Locals) -> None:
        if at.argrepr == "[]":
            self.op_binary_subscr(at, stack, local)
            return
        right, left = type_of(stack.pop()), type_of(stack.pop())
        stack.append(of_operator(at.argrepr.removesuffix("="), left, right))

    def op_compare_op(self, at: Any, stack: Stack, local: Locals) -> None:
        stack[-2:] = [bool]

    op_is_op = op_contains_op = op_compare_op

    def op_unary_not(self, at: Any, stack: Stack, local: Locals) -> None:
        stack[-1] = bool

    def op_unary_negative(self, at: Any, stack: Stack, local: Locals) -> None:
        operand = type_of(stack.pop())
        stack.append({bool: int, int: int, float: float, complex: complex}.get(operand, Any))

    op_unary_positive = op_unary_invert = op_unary_negative

    def op_binary_subscr(self, at: Any, stack: Stack, local: Locals) -> None:
        key, value = stack.pop(), stack.pop()
        known = key.value if isinstance(key, Known) else None
        stack.append(
            of_subscript(type_of(value), slice if isinstance(known, slice) or key is slice else type_of(key), known)
        )

    def op_build_slice(self, at: Any, stack: Stack, local: Locals) -> None:
        self._slice(stack, at.arg)

    def op_binary_slice(self, at: Any, stack: Stack, local: Locals) -> None:
        self._slice(stack, 2)
        self.op_binary_subscr(at, stack, local)

    def _slice(self, stack: Stack, count: int) -> None:
        parts = stack[-count:]
        is_known = all(isinstance(part, Known) for part in parts)
        stack[-count:] = [Known(slice(*(part.value for part in parts))) if is_known else slice]

    def op_format_value(self, at: Any, stack: Stack, local: Locals) -> None:
        if at.opname == "FORMAT_WITH_SPEC" or (at.opname == "FORMAT_VALUE" and at.arg & 4 == 4):
            stack.pop()
        stack[-1] = str

    op_format_simple = op_format_with_spec = op_convert_value = op_format_value

    # Displays

    def _popped(self, stack: Stack, count: int) -> list[Any]:
        parts = [type_of(part) for part in stack[len(stack) - count :]]
        del stack[len(stack) - count :]
        return parts

    def op_build_tuple(self, at: Any, stack: Stack, local: Locals) -> None:
        before = self.decoded.instructions[self.decoded.indices[at.offset] - 1]
        loaded = before.argval if isinstance(before.argval, tuple) else (before.argval,)
        if before.opname == "LOAD_CLOSURE" or ("LOAD_FAST" in before.opname and self.enclosed.issuperset(loaded)):
            stack[-at.arg :] = [Cells(tuple(stack[-at.arg :]))]
            return
        stack.append(tuple[tuple(self._popped(stack, at.arg))])  # type: ignore[misc]

    def op_build_list(self, at: Any, stack: Stack, local: Locals) -> None:
        kind: Any = set if at.opname == "BUILD_SET" else list
        stack.append(kind[_union(self._popped(stack, at.arg) or [Never])])

    op_build_set = op_build_list

    def op_build_map(self, at: Any, stack: Stack, local: Locals) -> None:
        parts = self._popped(stack, 2 * at.arg) or [Never, Never]
        stack.append(dict[_union(parts[::2]), _union(parts[1::2])])  # type: ignore[misc]

    def op_build_const_key_map(self, at: Any, stack: Stack, local: Locals) -> None:
        keys = infer_type(stack.pop().value)
        stack.append(dict[keys, _union(self._popped(stack, at.arg))])  # type: ignore[misc, valid-type]

    def op_build_string(self, at: Any, stack: Stack, local: Locals) -> None:
        self._popped(stack, at.arg)
        stack.append(str)

    def op_list_append(self, at: Any, stack: Stack, local: Locals) -> None:
        self._add(stack, [type_of(stack.pop())], at.arg)

    op_set_add = op_list_append

    def op_list_extend(self, at: Any, stack: Stack, local: Locals) -> None:
        self._add(stack, [element_of(type_of(stack.pop()))], at.arg)

    op_set_update = op_list_extend

    def op_map_add(self, at: Any, stack: Stack, local: Locals) -> None:
        self._add(stack, self._popped(stack, 2), at.arg)

    def op_dict_update(self, at: Any, stack: Stack, local: Locals) -> None:
        kind, args = class_and_args(simplified(type_of(stack.pop())))
        self._add(stack, list(args) if kind is dict and len(args) == 2 else [Any, Any], at.arg)

    op_dict_merge = op_dict_update

    # The container is below the other entries.
    def _add(self, stack: Stack, added: list[Any], depth: int) -> None:
        kind, args = class_and_args(type_of(stack[-depth]))
        stack[-depth] = kind[tuple(_union([old, new]) for old, new in zip(args, added))] if args else kind or Any

    def op_list_to_tuple(self, at: Any, stack: Stack, local: Locals) -> None:
        stack[-1] = tuple[element_of(stack[-1]), ...]  # type: ignore[misc]

    def op_call_intrinsic_1(self, at: Any, stack: Stack, local: Locals) -> None:
        if at.argrepr == "INTRINSIC_LIST_TO_TUPLE":
            self.op_list_to_tuple(at, stack, local)
        elif at.argrepr == "INTRINSIC_UNARY_POSITIVE":
            self.op_unary_negative(at, stack, local)
        elif at.argrepr != "INTRINSIC_STOPITERATION_ERROR":
            raise UnknownInstructionError(at.argrepr)

    def op_unpack_sequence(self, at: Any, stack: Stack, local: Locals) -> None:
        stack.extend(reversed(_unpacked(type_of(stack.pop()), at.arg)))

    def op_unpack_ex(self, at: Any, stack: Stack, local: Locals) -> None:
        item = element_of(type_of(stack.pop()))
        stack.extend([*([item] * (at.arg >> 8)), list[item], *([item] * (at.arg & 255))])  # type: ignore[valid-type]

    # Iteration and generators

    def op_get_iter(self, at: Any, stack: Stack, local: Locals) -> None:
        stack[-1] = Iterator[element_of(type_of(stack[-1]))]  # type: ignore[misc]

    op_get_yield_from_iter = op_get_iter

    def op_end_for(self, at: Any, stack: Stack, local: Locals) -> None:
        del stack[-1 if sys.version_info >= (3, 13) else -2 :]

    def op_end_send(self, at: Any, stack: Stack, local: Locals) -> None:
        del stack[-2]

    def op_return_generator(self, at: Any, stack: Stack, local: Locals) -> None:
        stack.append(Any)

    def op_yield_value(self, at: Any, stack: Stack, local: Locals) -> None:
        self.yielded[at.offset] = type_of(stack.pop())
        stack.append(Any)

    # Exceptions and contexts

    def op_push_exc_info(self, at: Any, stack: Stack, local: Locals) -> None:
        stack.insert(-1, Any)

    def op_check_exc_match(self, at: Any, stack: Stack, local: Locals) -> None:
        stack[-1] = bool

    def op_before_with(self, at: Any, stack: Stack, local: Locals) -> None:
        stack[-1:] = [Any, Any]

    def op_load_assertion_error(self, at: Any, stack: Stack, local: Locals) -> None:
        stack.append(Any)

    op_load_build_class = op_load_assertion_error

    def op_load_common_constant(self, at: Any, stack: Stack, local: Locals) -> None:
        stack.append(Known(getattr(builtins, at.argrepr, None)))

    def op_load_special(self, at: Any, stack: Stack, local: Locals) -> None:
        stack[-1:] = [Any, NULL]

    def op_import_name(self, at: Any, stack: Stack, local: Locals) -> None:
        stack[-2:] = [Any]

    def op_import_from(self, at: Any, stack: Stack, local: Locals) -> None:
        stack.append(Any)

    # Functions and calls

    def op_make_function(self, at: Any, stack: Stack, local: Locals) -> None:
        code = stack.pop().value
        flags = at.arg or 0
        cells = stack.pop() if flags & 8 else None
        del stack[len(stack) - (flags & 7).bit_count() :]
        stack.append(_made(code, cells))

    def op_set_function_attribute(self, at: Any, stack: Stack, local: Locals) -> None:
        made, attribute = stack.pop(), stack.pop()
        stack.append(_made(made.code, attribute) if at.arg == 8 else made)

    def op_kw_names(self, at: Any, stack: Stack, local: Locals) -> None:
        self.keyword_names = at.argval if isinstance(at.argval, tuple) else self.constants[at.arg]

    def op_call_kw(self, at: Any, stack: Stack, local: Locals) -> None:
        self.keyword_names = stack.pop().value
        self.op_call(at, stack, local)

    def op_call(self, at: Any, stack: Stack, local: Locals) -> None:
        names, self.keyword_names = self.keyword_names, ()
        args = stack[len(stack) - at.arg :]
        del stack[len(stack) - at.arg :]
        second, first = stack.pop(), stack.pop()
        if first is NULL:
            fn = second
        else:
            fn, args = first, args if second is NULL else [second, *args]
        positional = args[: len(args) - len(names)]
        stack.append(self.call(fn, positional, dict(zip(names, args[len(positional) :]))))

    def op_call_function_ex(self, at: Any, stack: Stack, local: Locals) -> None:
        has_named = sys.version_info >= (3, 14) or at.arg & 1
        named = stack.pop() if has_named else NULL
        items = class_and_args(simplified(type_of(stack.pop())))[1]
        second, first = stack.pop(), stack.pop()
        fn = second if first is NULL else first
        is_known = named is NULL and items and not {(), Ellipsis} & set(items)
        stack.append(self.call(fn, list(items), {}) if is_known else Any)


def _made(code: CodeType, cells: Cells | None) -> Made:
    return Made(code, dict(zip(code.co_freevars, cells.entries if cells is not None else ())))
