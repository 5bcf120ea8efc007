# ruff: noqa: C400, C416, PIE800, PIE804, UP007, UP031, UP032, UP045 (as users write)
"""Functions without annotations, and the types that are inferred of their results: a table that any Python prints."""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, Optional, Union

from penstock.sdk.elements.row import Row
from penstock.sdk.typehints import describe
from penstock.sdk.typehints.results import infer_result
from penstock.windowing.timestamped_value import TimestampedValue

LIMIT = 10
STOP = ("a", "the")


class Point(NamedTuple):
    x: int
    name: str


@dataclasses.dataclass
class Order:
    price: float
    items: list[str]

    def total(self, tax):
        return self.price * tax


class Scale:
    factor = 2

    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return self.twice(x)

    def twice(self, x):
        return 2 * x

    def halves(self, line, separator=","):
        for word in line.split(separator):
            yield word[: len(word) // 2], word


def generator(line):
    for word in line.split():
        yield word, len(word)


def delegating(line):
    yield from line.split()


def yielding_twice(line):
    if line:
        yield line
    yield 1


def yielding_after_a_loop(lines):
    count = 0
    for line in lines:
        if not line:
            continue
        count += 1
        yield count, line
    yield count, "end"


def with_fallback(text):
    try:
        return int(text)
    except ValueError:
        return None


def with_finally(text):
    try:
        return float(text)
    finally:
        print(text)


def with_else(text):
    try:
        number = int(text)
    except (ValueError, TypeError) as error:
        return str(error)
    else:
        return number * 1.5


def length_of_file(path):
    with open(path) as file:
        return len(file.read())


def parsed_in_a_context(path):
    with open(path) as file, open("b") as other:
        lines = file.read(), other.read()
    return len(lines)


def counted(words):
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return counts


def counter(words):
    counts = collections.Counter(words)
    return counts


def total(values):
    result = 0
    for value in values:
        result += value
    return result


def branches(flag):
    if flag == 1:
        result = 1
    elif flag == 2:
        result = 1.5
    else:
        result = "text"
    return result


def is_an_int(x):
    if isinstance(x, int):
        return str(x)
    return x


def while_loop(n):
    rest = n
    steps = 0
    while rest > 1:
        rest //= 2
        steps += 1
    return steps


def walrus(line):
    if (size := len(line)) > 3:
        return size
    return 0


def matched(point):
    match point:
        case (0, name):
            return name
        case _:
            return "other"


def matched_value(x):
    match x:
        case 1:
            return "one"
        case 2 | 3:
            return "few"
    return "many"


def unpacked(pair):
    (first, second), *rest = pair, 1, 2
    return second, first, rest


def swapped(pair):
    a, b = pair
    a, b = b, a
    return a, b


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def endless(x):
    while True:
        x = (x,)


def adding(n):
    return lambda x: x + n


def helper(line, suffix="!"):
    return line + suffix


def calling(line):
    return helper(line), helper(line, suffix="?")


def asserting(x):
    assert x > 0, "positive"
    return x


def raising(x):
    if x is None:
        raise ValueError("none")
    return x


def deleting(x):
    y = x
    del x
    return y


def nested(line):
    def clean(word):
        return word.strip().lower()

    return [clean(word) for word in line.split()]


def closing_over(line):
    size = len(line)
    return [word * size for word in line.split()]


def closing_over_two_values(line):
    size = 1
    size = line
    return [size for _ in line], (lambda: size)()


def closing_over_an_argument(line):
    line = line.split()
    return [(lambda: line)() for _ in "ab"]


def counting_inside(line):
    count = 0

    def add():
        nonlocal count
        count += 1.5
        return count

    return add(), count


def closing_twice(n):
    return lambda x: [(lambda y: y + n)(z) for z in x]


def closing_in_a_loop(line):
    found = []
    for word in line.split():
        size = len(word)
        found = [size for _ in "ab"]
    return found


def tested_after_an_assignment(values):
    found = values.get("a")
    if found is None:
        return "none"
    return found


def tested_variable_of_a_closure(values):
    found = values.get("a")
    if found is None:
        return []
    return [found for _ in "ab"]


def kept_or_default(values):
    found = values.get("a") or 2.5
    return found, (lambda: found)()


def nested_comprehensions(line):
    return [[letter for letter in word] for word in line.split()], {w: [len(w)] for w in line.split()}


def generator_over_a_variable(line):
    size = len(line)
    return list(word * size for word in line.split()), sum(size for _ in line)


def two_tests(x):
    if x is not None and x > 3:
        return x
    return 0


def while_true(line):
    words = line.split()
    while True:
        word = words.pop()
        if word:
            return word


def with_star(first, *rest, key=None, **named):
    return first, rest, named


def raising_in_a_handler(text):
    try:
        return int(text)
    except ValueError as error:
        raise TypeError(text) from error


def continuing(lines):
    for line in lines:
        try:
            number = int(line)
        except ValueError:
            continue
        yield number


def returning_in_a_with(path):
    with open(path):
        return path.upper()


def class_inside(x):
    class Inner:
        value = x

    return x, Inner


def global_variable(x):
    return LIMIT, STOP, STOP[0], x


def item_assigned(x):
    found = {}
    found["a"] = x
    del found["b"]
    return found


def attribute_assigned(order):
    order.price = 2.5
    order.price += 1
    return order.price


def chained(line):
    a = b = len(line)
    a, *c = b, "x", "y"
    return a, b, c


def ternaries(x):
    return (1 if x > 1 else "a"), (x if x else None), ([] if x else [x])


def importing(x):
    import re
    from os import path

    return re.escape(x), path.join(x), str(x)


def appended(line):
    found = []
    for word in line.split():
        found.append(len(word))
    return found


def sliced(line):
    return line[1:], line[:-1], line[::2], line[0]


def optional(x):
    return x.lower() if x else None


def first_of(values):
    for value in values:
        return value
    return None


def broken_loop(line):
    longest = ""
    for word in line.split():
        if word == "end":
            break
        longest = word
    return longest


async def awaited(x):
    return x


def looped_twice(rows):
    return [cell + 1 for row in rows for cell in row if cell > 1]


def row_of(point):
    return Row(name=point.name, double=point.x * 2)


def timed(pair):
    return TimestampedValue(pair, 3)


def computed(pair):
    key, values = pair
    return key, sum(values) / len(list(values))


def joined_text(pair):
    key, values = pair
    return f"{key}: {', '.join(sorted(values))}"


def formatted(x):
    return f"{x:>10}", f"{x!r}", f"{x}", "{}".format(x), "%s" % x


def compared(x):
    return x == 1, 0 < x < 10, x in (1, 2), x is None, not x, x != 1 and x


def arithmetic(x):
    return x + 1, x - 1.5, x * 2, x / 2, x // 2, x % 2, x**2, -x, +x, ~x, x << 1, x & 1, x | 1, x ^ 1


def constants(x):
    return 1, 1.5, "a", b"a", None, True, (1, "a"), 2j, ...


def displays(x):
    return [1, x], {1, x}, {"a": x}, (x, x), [], {}, (), [1, 2, 3], {"a", "b", "c"}


def spread(x):
    return [*x, 1], (*x, "a"), {*x}, {**{"a": 1}, "b": 2.5}


def called(x):
    return helper(*[x]), helper(**{"line": x}), max(x, x), dict(a=1), Point(name="a", x=1)


FUNCTIONS: list[tuple[Callable[..., Any], list[Any]]] = [
    *((fn, [str]) for fn in (generator, delegating, yielding_twice, with_fallback, with_finally, with_else)),
    *((fn, [str]) for fn in (length_of_file, parsed_in_a_context, walrus, nested, closing_over, importing, appended)),
    *((fn, [str]) for fn in (sliced, broken_loop, calling, helper, timed, awaited)),
    *((fn, [str]) for fn in (closing_over_two_values, closing_over_an_argument, counting_inside, closing_in_a_loop)),
    *((fn, [dict[str, int]]) for fn in (tested_after_an_assignment, tested_variable_of_a_closure, kept_or_default)),
    *((fn, [str]) for fn in (nested_comprehensions, generator_over_a_variable, while_true, raising_in_a_handler)),
    *((fn, [str]) for fn in (returning_in_a_with, class_inside, global_variable, item_assigned, chained)),
    *((fn, [int]) for fn in (ternaries, with_star)),
    (two_tests, [Optional[int]]),
    (continuing, [list[str]]),
    (attribute_assigned, [Order]),
    (closing_twice(2.5), [list[int]]),
    (with_star, [int, str, str]),
    (yielding_after_a_loop, [list[str]]),
    (optional, [Optional[str]]),
    (raising, [Optional[int]]),
    (counted, [list[str]]),
    (counter, [list[str]]),
    (total, [list[int]]),
    *((fn, [int]) for fn in (branches, while_loop, matched_value, fibonacci, endless, asserting, deleting)),
    *((fn, [int]) for fn in (formatted, compared, arithmetic, constants, displays, adding(2.5), Scale(2), len)),
    (arithmetic, [float]),
    (is_an_int, [Union[int, str]]),
    (matched, [tuple[int, str]]),
    *((fn, [tuple[str, int]]) for fn in (unpacked, swapped)),
    *((fn, [tuple[str, list[int]]]) for fn in (computed,)),
    *((fn, [tuple[str, list[str]]]) for fn in (joined_text,)),
    (first_of, [list[int]]),
    (looped_twice, [list[list[int]]]),
    (row_of, [Point]),
    (spread, [list[int]]),
    (called, [str]),
    (Scale(2).twice, [str]),
    (Scale(2).halves, [str]),
    (functools.partial(helper, suffix="?"), [str]),
    (functools.partial(lambda a, b: (a, b), 3), [str]),
    (Order.total, [Order, float]),
    (str.upper, [Any]),
    ("{}".format, [int]),
    (operator.itemgetter(0), [tuple[str, int]]),
    (json.loads, [str]),
    (Point, [int, str]),
    (lambda x: x, [int]),
    (lambda x: x.anything, [int]),
    (lambda word: (word, 1), [str]),
    (lambda pair: pair[0], [tuple[int, str]]),
    (lambda pair: pair[1:], [tuple[int, str]]),
    (lambda pair: pair[-1], [tuple[int, str]]),
    (lambda pair: (pair[0], sum(pair[1])), [tuple[str, list[int]]]),
    (lambda pair: (pair[1], pair[0]), [tuple[str, int]]),
    (lambda key, values: (key, len(values)), [str, Any]),
    (lambda line: line.strip().lower().split(","), [str]),
    (lambda line: [(w, 1) for w in line.split()], [str]),
    (lambda line: [w.lower() for w in line.split() if w not in STOP], [str]),
    (lambda line: {w: len(w) for w in line.split()}, [str]),
    (lambda line: {len(w) for w in line.split()}, [str]),
    (lambda line: ((w, 1) for w in line.split()), [str]),
    (lambda line: [], [str]),
    (lambda x: [x], [int]),
    (lambda x: {"n": x, "m": 2.0}, [int]),
    (lambda x: x if x > LIMIT else None, [int]),
    (lambda x: x or 3, [Optional[int]]),
    (lambda x: x and 3, [Optional[int]]),
    (lambda x: 0 if x is None else x, [Optional[int]]),
    (lambda x: x if x is not None else 0, [Optional[int]]),
    (lambda x: x > 2 and not x, [Any]),
    (lambda x: -x / 2, [int]),
    (lambda x: print(x), [int]),
    (lambda x: sorted(x, key=lambda y: -y), [set[int]]),
    (lambda x: max(x, key=lambda y: -y), [list[int]]),
    (lambda x: list(map(str, x)), [list[int]]),
    (lambda x: dict(zip("ab", x)), [list[int]]),
    (lambda x: [i for i, _ in enumerate(x)], [list[str]]),
    (lambda x: (lambda y: y + 1)(x), [int]),
    (lambda x: [y for y in range(x)], [int]),
    (lambda x, n=1: n, [int]),
    (lambda p: (p.name, p.x), [Point]),
    (lambda p: p._replace(x=1), [Point]),
    (lambda order: order.price, [Order]),
    (lambda order: order.items[0], [Order]),
    (lambda order: order.total(2), [Order]),
    (lambda x: Point(x, "a"), [int]),
    (lambda x: Row(a=x, b="b"), [int]),
    (lambda x: Order(1.5, [x]), [str]),
    (lambda d: d.items(), [dict[str, int]]),
    (lambda d: d["a"] + 1, [dict[str, int]]),
    (lambda d: d.get("a"), [dict[str, int]]),
    (lambda d: d.get("a", 0), [dict[str, int]]),
    (lambda d: {**d, "b": 1}, [dict[str, int]]),
    (lambda x: math.sqrt(x), [int]),
    (lambda x: str(x) + "!", [int]),
    (lambda x: int(x) % 10, [str]),
    (lambda x: (x, (x, [x])), [int]),
    (lambda x: x[0][1], [tuple[tuple[int, str], int]]),
    (lambda x, *rest: rest, [int, str, float]),
    (lambda x, **named: x, [int]),
    (lambda x: isinstance(x, str), [Any]),
    (lambda x: hash(x) % 3, [Any]),
    (lambda x: "a" if x else "b", [Any]),
    (lambda x: 1 if x else 2.5, [Any]),
    (lambda x: ("a", 1, 2.5)[x], [int]),
    (lambda x: x == "a" or x == "b", [str]),
    (lambda line: any(word in STOP for word in line.split()), [str]),
    (lambda line: sum(1 for word in line.split()), [str]),
    (lambda b: b.decode().split(","), [bytes]),
    (lambda x: (yield x), [int]),
]


def inferred() -> list[str]:
    """Return the name and the inferred type of each function."""
    return [
        f"{getattr(fn, '__name__', type(fn).__name__)}{number}: {describe(infer_result(fn, inputs))}"
        for number, (fn, inputs) in enumerate(FUNCTIONS)
    ]


if __name__ == "__main__":
    print(json.dumps(inferred()))
