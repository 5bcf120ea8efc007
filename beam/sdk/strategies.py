"""Strategies of hypothesis for types of rows' fields, under Beam's names.  Needs hypothesis."""

from __future__ import annotations

import keyword
import unicodedata
from typing import Any, Final, Mapping, Optional, Sequence  # noqa: UP035 (the forms that a schema is converted to)

from hypothesis import strategies as st

from ..typehints.row_type import RowTypeConstraint
from ..typehints.schemas import ATOMIC_TYPE_TO_PRIMITIVE

PRIMITIVES: Final = list(ATOMIC_TYPE_TO_PRIMITIVE.values())


def field_names() -> st.SearchStrategy[str]:
    """Return a strategy of the names that fields may have."""
    letters = st.characters(categories=("Lu", "Ll", "Lt", "Lm", "Lo", "Nl"))
    others = st.characters(categories=("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Nd", "Pc", "Mn", "Mc"))
    names = st.builds("".join, st.tuples(letters, st.text(others, max_size=20)))
    return names.filter(lambda name: name.isidentifier() and not keyword.iskeyword(name))


def _fields(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[str, Any]]]:
    # Python compares names in this form.
    return st.lists(
        st.tuples(field_names(), kinds), min_size=1, unique_by=lambda field: unicodedata.normalize("NFKC", field[0])
    )


def types() -> st.SearchStrategy[Any]:
    """Return a strategy of types that have a schema and are the same when they are converted back."""

    def containing(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(
            kinds.map(lambda kind: Optional[kind]),  # noqa: UP045
            kinds.map(lambda kind: Sequence[kind]),  # type: ignore[valid-type]
            st.tuples(kinds, kinds).map(lambda pair: Mapping[pair]),  # type: ignore[misc,valid-type]
            _fields(kinds).map(RowTypeConstraint.from_fields),
        )

    return st.recursive(st.sampled_from(PRIMITIVES), containing)


def named_fields() -> st.SearchStrategy[list[tuple[str, Any]]]:
    """Return a strategy of fields, as pairs of name and type."""
    return _fields(types())
