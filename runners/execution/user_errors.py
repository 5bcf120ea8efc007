"""Errors of user code, with their transform, element and line; and those of elements and keys that can't be grouped."""

from __future__ import annotations

import reprlib
import traceback
import types
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from ...frozen import frozen
from ...sdk.coders.key_encoding import encode_key
from ...sdk.errors import InvalidKeyError, NotAPairError, PenstockError, UserCodeError
from ...sdk.redaction import redacted
from ...sdk.user_code.error_text import can_be_shown, text_of, traceback_lines
from ...sdk.user_code.own_code import is_ours
from ...sdk.user_code.step_slot import here

T = TypeVar("T")

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 120
_repr.maxlevel = 3


def shortened(element: Any) -> str:
    """Return a `repr` of an element that fits on a line.

    >>> shortened("x" * 1000)[:20]
    "'xxxxxxxxxxxxxxxxxxx"
    """
    try:
        text = _repr.repr(element)
    except Exception as error:
        text = f"<{type(element).__name__} whose repr raised {type(error).__name__}>"
    return text if len(text) <= 200 else text[:197] + "..."


@frozen
class Attribution:
    """The transform and element that an error is attributed to."""

    transform: str
    element: str | None


def attributed(error: BaseException, attribution: Attribution) -> BaseException:
    """Return the error to raise for an error of user code.

    It is an instance of `UserCodeError` that is also one of the user's exception class where Python allows both.  A
    `PenstockError` stays itself, with the transform's label in front.  An error that would end the program, such as
    that of `sys.exit` in a DoFn, is an error of the DoFn.  An interrupt, and a user's class directly below
    `BaseException`, stays itself, with a note of the running transform.
    """
    if not isinstance(error, (Exception, *_ENDS_A_PROGRAM)) and type(error).__name__ != "CancelledError":
        return noted(error, attribution)
    if isinstance(error, GeneratorExit) and user_frames(error.__traceback__) is None:
        # A generator of this package is closed.
        return error
    if isinstance(error, PenstockError):
        if error.transform:
            return error
        text = text_of(error)
        # Sources and sinks that know their label have put it in front.
        if not text.startswith(f"{attribution.transform}: "):
            text = f"{attribution.transform}: {text}"
        if attribution.element not in (None, "None"):
            text += f" (element: {attribution.element})"
        renamed = retold(error, text)
        renamed.transform = attribution.transform
        renamed.__cause__ = error.__cause__
        return renamed
    tb = user_frames(error.__traceback__)
    location = None
    if tb is not None:
        last = traceback.extract_tb(tb)[-1]
        first = traceback.extract_tb(tb)[0]
        location = f"{first.filename}:{first.lineno}"
        if (last.filename, last.lineno) != (first.filename, first.lineno):
            location += f", raised at {last.filename}:{last.lineno}"
    return user_code_error(
        error.with_traceback(tb), attribution.transform, attribution.element, location, type(error).__name__
    )


# `SystemExit` would end the process silently, and `GeneratorExit` any generator that it passes.
_ENDS_A_PROGRAM = (SystemExit, GeneratorExit)


def noted(error: BaseException, attribution: Attribution) -> BaseException:
    """Return the error, with a note of the running transform unless it has one: the innermost says most."""
    if not any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ())):
        element = "" if attribution.element is None else f" on element {attribution.element}"
        error.add_note(redacted(f"{_NOTE}{attribution.transform}'{element}]"))
    return error


_NOTE = "[while running '"


def as_exception(error: BaseException) -> Exception:
    """Return an `Exception` for another process: an interrupt, or another `BaseException`, would end that one, too."""
    if isinstance(error, Exception):
        return error
    parts = [f": {text_of(error)}" if text_of(error) else "", *(f" {note}" for note in getattr(error, "__notes__", ()))]
    made = UserCodeError(type(error).__name__ + "".join(parts))
    made.__cause__ = error
    return made


def retold(error: PenstockError, text: str) -> PenstockError:
    """Return an error of the same class and attributes with another text, whatever arguments the class takes."""
    kind = type(error)
    made: PenstockError | None = None
    try:
        made = kind(text)
    except TypeError:
        pass
    if made is None or str(made) != redacted(text):
        made = _of_class(kind, (kind,), redacted(text))
    vars(made).update(vars(error))
    return made


def reraise(error: BaseException) -> NoReturn:
    """Raise an attributed error with its cause, and without the present exception as context."""
    raise error from error.__cause__


def guarded(label: str, action: Callable[[], T]) -> T:
    """Return the result of user code; its time, metrics and errors are those of the transform of this label."""
    slot = here.slot
    before = slot.enter(label)
    try:
        return action()
    except BaseException as error:
        reraise(attributed(error, Attribution(label, None)))
    finally:
        slot.enter(before)


def start_bundle(transform: str, fn: Any) -> None:
    """Start a bundle of a DoFn.  Raises `RuntimeError` if it returns outputs, which belong to no element."""
    result = guarded(transform, fn.start_bundle)
    if result is not None:
        error = RuntimeError(f"start_bundle should not output any elements, but returned {shortened(result)}")
        reraise(attributed(error, Attribution(transform, None)))


def guarded_items(transform: str, make: Callable[[], Iterable[T]]) -> Iterator[T]:
    """Yield the items of an iterable of user code, up to None; see `guarded`."""
    items = iter(guarded(transform, make))
    while (item := guarded(transform, partial(next, items, None))) is not None:
        yield item


def user_code_error(
    error: BaseException, transform: str, element: str | None, location: str | None, kind: str
) -> UserCodeError:
    """Return a `UserCodeError` for an error of user code, of its class as well if possible."""
    parts = [f"{kind}: {text_of(error)}" if text_of(error) else kind, f"[while running '{transform}'"]
    if element is not None:
        parts.append(f"on element {element}")
    if location is not None:
        parts.append(f"at {location}")
    made = with_user_class(type(error), redacted(" ".join(parts) + "]"))
    made.transform, made.element, made.location = transform, element, location
    # Python prints the cause, too.
    made.__cause__ = error if can_be_shown(error) else ShortenedError(error)
    return made


class ShortenedError(Exception):
    """Stands for an exception that can't be shown, or would fill the log: its traceback, shortened.

    Attributes:
      kind: the exception's class.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__("".join(traceback_lines(error, error.__traceback__)))
        self.kind = type(error)

    def __str__(self) -> str:
        return "\n" + str(self.args[0])


def with_user_class(kind: type[BaseException], message: str) -> UserCodeError:
    """Return a `UserCodeError` with this message that is also a `kind`, if a class can be both."""
    # These would end any generator that they pass; Python itself turns them into RuntimeError.
    if issubclass(kind, (StopIteration, StopAsyncIteration)):
        kind = RuntimeError
    if kind is not Exception and issubclass(kind, Exception):
        try:
            made: UserCodeError = _of_class(kind, (UserCodeError, kind), message)
            return made
        except Exception:  # any error of a metaclass, or a layout conflict
            pass
    return UserCodeError(message)


def _message(self: Exception) -> str:
    return str(self.args[0])


# Methods that a user's class may define in a way that needs more than a message: frozen attributes, other arguments.
_PLAIN = {
    "__init__": Exception.__init__,
    "__str__": _message,
    "__repr__": Exception.__repr__,
    "__setattr__": Exception.__setattr__,
    "__delattr__": Exception.__delattr__,
    "__eq__": Exception.__eq__,
    "__hash__": Exception.__hash__,
}


def _of_class(kind: type[Exception], bases: tuple[type[Exception], ...], message: str) -> Any:
    """Return an error with these base classes that is shown as a `kind`, without calling the class."""
    made_of = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    both = types.new_class(kind.__name__, bases, exec_body=lambda body: body.update(_PLAIN))
    both.__module__, both.__qualname__ = kind.__module__, kind.__qualname__
    made: Any = made_of.__new__(both, message)
    Exception.__init__(made, message)
    return made


def user_frames(tb: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that begins at the first frame outside of this package.

    Returns None if there is none: a built-in function raised.
    """
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        if not is_ours(file):
            return tb
        tb = tb.tb_next
    return None


def pair_type(element: Any) -> type:
    """Return the type of an element that may be a (key, value) pair.

    Raises `NotAPairError` for other elements.
    """
    if isinstance(element, (tuple, list)):
        return type(element)
    raise not_a_pair(element)


def not_a_pair(element: Any) -> NotAPairError:
    """Return the error for an element that is not a (key, value) pair."""
    got = f"{shortened(element)} ({type(element).__name__})"
    if isinstance(element, (tuple, list)):
        got += f" of {len(element)} items"
    return NotAPairError(f"expected a (key, value) pair, got {got}; did you forget WithKeys, or a Map to a pair?")


def has_hash(key: Any) -> bool:
    """Return False for a key that can't be hashed, or whose part can't.

    >>> has_hash(("a", 1)), has_hash(("a", [1]))
    (True, False)
    """
    try:
        hash(key)
    except TypeError:
        return False
    return True


def unhashable(key: Any) -> InvalidKeyError:
    """Return the error for a key without a hash, with advice for the part that has none.

    >>> print(unhashable(("a", [1])))
    ('a', [1]) (a tuple) can't be a key, for [1] (a list) inside it is unhashable: use a tuple
    """
    try:
        encode_key(key)
    except InvalidKeyError as error:
        return error
    return InvalidKeyError(f"{shortened(key)} (a {type(key).__name__}) is unhashable, so it can't be a key")
