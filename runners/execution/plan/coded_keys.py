"""Keys with a registered coder: encoded before a grouping, and decoded for user code.

The graph gets a step before each grouping and each ParDo with state, and one behind each grouping.  Between them
shuffles, window operators, keyed state and snapshots have keys that are equal if their bytes are.  A graph is changed
only where a coder is registered and the key isn't known to be a simple value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, get_args, get_origin

import attrs

from ....sdk import typehints
from ....sdk.coders.coded_key import coded
from ....sdk.coders.key_encoding import CodedKey
from ....sdk.coders.typecoders import registry
from ....sdk.dofn.arrangement import Applied, ArrangementDoFn
from ....sdk.dofn.dofn import DoFn
from ....sdk.graph import Graph, GroupByKeyAndWindow, ParDo, PCollectionNode, Transform
from ....sdk.user_code.serialization import Serialized
from ..user_errors import not_a_pair, pair_type

# Suffixes of the steps' labels, behind the label of the step that groups.
ENCODE, DECODE = "EncodeKeys", "DecodeKeys"


_SIMPLE = frozenset({type(None), bool, int, float, str, bytes})


def with_coded_keys(graph: Graph) -> Graph:
    """Return the graph with encoded keys wherever elements are grouped by them."""
    if not registry.deterministic_types():
        return graph
    coding = _Coding(graph.pcollections)
    transforms: list[Transform] = []
    for transform in graph.transforms:
        if _groups(transform) and not _is_simple(graph.pcollections[transform.inputs[0]]):
            transforms += coding.around(transform)
        else:
            transforms.append(transform)
    return attrs.evolve(graph, transforms=tuple(transforms), pcollections=coding.pcollections)


def _groups(transform: Transform) -> bool:
    primitive = transform.primitive
    return isinstance(primitive, GroupByKeyAndWindow) or (isinstance(primitive, ParDo) and primitive.keyed is not None)


def _is_simple(node: PCollectionNode) -> bool:
    return _is_simple_hint(typehints.key_type(node.element_type), _SIMPLE - registry.deterministic_types())


def _is_simple_hint(hint: Any, simple: frozenset[Any]) -> bool:
    parts = get_args(hint)
    if get_origin(hint) is tuple and parts:
        return tuple not in registry.deterministic_types() and all(_is_simple_hint(part, simple) for part in parts)
    return isinstance(hint, type) and hint in simple


class _Coding:
    """Adds the steps that encode and decode keys.

    Attributes:
      pcollections: the graph's, with those of the added steps.
    """

    def __init__(self, pcollections: Mapping[int, PCollectionNode]) -> None:
        self.pcollections = dict(pcollections)
        self._numbers = count(max(pcollections, default=-1) + 1)
        self._encode = ArrangementDoFn(Applied(with_coded_key), ENCODE)
        self._decode = ArrangementDoFn(Applied(_with_decoded_key), DECODE)

    def around(self, transform: Transform) -> Iterator[Transform]:
        """Yield a step that groups, with encoded keys, between the steps that encode and decode them."""
        (elements,) = transform.inputs
        with_coded = self._new(elements)
        yield _step(transform, ENCODE, self._encode, elements, with_coded)
        primitive = transform.primitive
        if isinstance(primitive, ParDo):
            assert primitive.keyed is not None
            keyed = attrs.evolve(primitive.keyed, codes_keys=True)
            yield attrs.evolve(transform, inputs=(with_coded,), primitive=attrs.evolve(primitive, keyed=keyed))
            return
        outputs = {tag: self._new(output) for tag, output in transform.outputs.items()}
        yield attrs.evolve(transform, inputs=(with_coded,), outputs=outputs)
        for tag, output in transform.outputs.items():
            name = DECODE if tag is None else f"{DECODE}[{tag}]"
            yield _step(transform, name, self._decode, outputs[tag], output)

    def _new(self, like: int) -> int:
        number = next(self._numbers)
        self.pcollections[number] = attrs.evolve(self.pcollections[like], id=number, element_type=Any)
        return number


def _step(transform: Transform, name: str, fn: DoFn, input: int, output: int) -> Transform:
    label = f"{transform.label}/{name}"
    primitive = ParDo(Serialized((fn, (), {}), label))
    return Transform(label, primitive, (input,), {None: output}, transform.delivery)


def with_coded_key(element: Any) -> Any:
    """Return a (key, value) pair with its key in coded form.

    Raises `NotAPairError` or `InvalidKeyError`.

    >>> with_coded_key(("a", 1))
    ('a', 1)
    """
    if type(element) is not tuple:
        pair_type(element)
    try:
        key, value = element
    except ValueError:
        raise not_a_pair(element) from None
    own = coded(key)
    return element if own is key else (own, value)


def _with_decoded_key(element: Any) -> Any:
    return (element[0].key, element[1]) if type(element[0]) is CodedKey else element
