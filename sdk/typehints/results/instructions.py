"""The effect of each instruction of the bytecode on a stack of types, and on the types of variables.

An entry of the stack is a type, or what is known of a value beyond its type: `Known`, `Method` or `Made`.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, Never

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
    """Return the union of types.  A container without elements (of `Never`) is one of the others of its class."""
    distinct = [one for one in dict.fromkeys(hints) if one is not Never]
    if not distinct:
        return Never
    full = {class_and_args(one)[0] for one in distinct if not _is_empty(one)}
    hint = union_of([one for one in distinct if not (_is_empty(one) and class_and_args(one)[0] in full)])
    alternatives = members(hint)
    return Any if alternatives and len(alternatives) > _ALTERNATIVES else hint


def _is_empty(hint: Any) -> bool:
    return Never in class_and_args(hint)[1]


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
        is_own = of.__name__.partition(".")[0] in ("penstock", "apache_beam")
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
      changes: whether it may change containers that it made.
      assigned: enclosed variables that it assigns.
    """

    instructions: list[dis.Instruction]
    indices: dict[int, int]
    handlers: list[Any]
    changes: bool
    assigned: frozenset[str]


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
        any(
            one.opname in ("STORE_SUBSCR", "STORE_SLICE")
            or (one.opname in ("LOAD_ATTR", "LOAD_METHOD") and one.argval in _MUTATORS)
            or (one.opname == "BINARY_OP" and one.argrepr.endswith("="))
            for one in instructions
        ),
        frozenset(one.argval for one in instructions if one.opname == "STORE_DEREF"),
    )


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
        self.decoded = decoded(code)
        self.yielded: list[Any] = []
        self.keyword_names: tuple[str, ...] = ()

    def call(self, fn: Any, args: list[Any], keywords: Mapping[str, Any]) -> Any:
        """Return the type of the result of a call."""
        raise NotImplementedError

    # Loads and stores

    def _ignore(self, at: Any, stack: Stack, local: Locals) -> None:
        pass

    op_nop = op_resume = op_precall = op_cache = op_copy_free_vars = op_make_cell = op_to_bool = _ignore
    op_extended_arg = op_delete_fast = op_setup_annotations = _ignore

    def _load(self, name: str, local: dict[str, Any]) -> Any:
        return local.get(name, Any)

    def _store(self, name: str, entry: Any, local: dict[str, Any]) -> None:
        kind = class_and_args(type_of(entry))[0]
        local[name] = kind if self.decoded.changes and kind in _MUTABLE else entry

    def op_load_const(self, at: Any, stack: Stack, local: Locals) -> None:
        stack.append(Known(at.argval))

    def op_load_fast(self, at: Any, stack: Stack, local: Locals) -> None:
        names = at.argval if isinstance(at.argval, tuple) else (at.argval,)
        stack.extend(self._load(name, local) for name in names)

    op_load_fast_check = op_load_fast_load_fast = op_load_fast

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
        is_parameter = at.argval in local and at.argval not in self.decoded.assigned
        stack.append(local[at.argval] if is_parameter else self.cells.get(at.argval, Any))

    op_load_closure = op_load_deref

    def op_store_deref(self, at: Any, stack: Stack, local: Locals) -> None:
        stack.pop()

    op_store_global = op_pop_top = op_pop_except = op_store_deref

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

    def op_store_attr(self, at: Any, stack: Stack, local: Locals) -> None:
        del stack[-2:]

    op_delete_subscr = op_store_attr

    def op_store_subscr(self, at: Any, stack: Stack, local: Locals) -> None:
        del stack[-3:]

    def op_copy(self, at: Any, stack: Stack, local: Locals) -> None:
        stack.append(stack[-at.arg])

    def op_swap(self, at: Any, stack: Stack, local: Locals) -> None:
        stack[-1], stack[-at.arg] = stack[-at.arg], stack[-1]

    # Operators

    def op_binary_op(self, at: Any, stack: Stack, local: Locals) -> None:
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
        stack[-depth] = kind[tuple(_union([old, new]) for old, new in zip(args, added))] if args else kind

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
        self.yielded.append(type_of(stack.pop()))
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
        named = stack.pop() if at.arg & 1 else None
        items = class_and_args(simplified(type_of(stack.pop())))[1]
        second, first = stack.pop(), stack.pop()
        fn = second if first is NULL else first
        is_known = named is None and items and not {(), Ellipsis} & set(items)
        stack.append(self.call(fn, list(items), {}) if is_known else Any)


def _made(code: CodeType, cells: Any) -> Made:
    return Made(code, dict(zip(code.co_freevars, class_and_args(cells)[1] if cells is not None else ())))
