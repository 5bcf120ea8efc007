"""Joins of frames by CoGroupByKey: the rows of two sides whose keys are equal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..sdk.columns.expressions import field_of
from ..sdk.elements.row import Row, rows_of_dicts
from ..sdk.pvalue import PCollection
from ..sdk.typehints.schema import schemas_of, with_schema
from ..transforms import CoGroupByKey, FlatMap, Map

HOWS = ("inner", "left", "right", "outer")

# The side of a field that is the key of both sides.
BOTH = "both"


def joined(
    sides: dict[str, PCollection[Any]],
    keys: dict[str, list[str]],
    fields: list[tuple[str, str, str]],
    how: str,
    label: str,
) -> PCollection[Any]:
    """Return the rows of a join, for each window.

    Args:
      sides: the Rows of "left" and "right".
      keys: the names of the key's fields on each side.
      fields: the name of each field of the result, its side or `BOTH`, and its name there; the left side's name for the
        key of both.
      how: one of `HOWS`.
    """
    types = {side: dict(schemas_of(rows.hint)[0][1].fields) for side, rows in sides.items()}
    pairs = {}
    for side, rows in sides.items():
        key, values = (tuple(map(field_of, names)) for names in (keys[side], types[side]))
        expressions: Any = key, values
        pairs[side] = rows | f"{label}/Key[{side}]" >> Map(expressions)
    positions = {side: list(own) for side, own in types.items()}
    # The item of the key, or the side and the item of its row.
    items = [
        (name, side, keys["left"].index(own) if side == BOTH else positions[side].index(own))
        for name, side, own in fields
    ]
    keeps_left, keeps_right = how in ("left", "outer"), how in ("right", "outer")

    def matches(group: tuple[Any, dict[str, list[Any]]]) -> Iterator[Any]:
        key, values = group
        for left in values["left"] or ([None] if keeps_right else []):
            for right in values["right"] or ([None] if keeps_left else []):
                found = {BOTH: key, "left": left, "right": right}
                yield from rows_of_dicts(
                    [{name: None if found[side] is None else found[side][item] for name, side, item in items}]
                )

    hint = with_schema(Row, [(name, types["left" if side == BOTH else side][own]) for name, side, own in fields])
    outputs: PCollection[Any] = (
        pairs | label >> CoGroupByKey() | f"{label}/Rows" >> FlatMap(matches).with_output_types(hint)
    )
    return outputs
