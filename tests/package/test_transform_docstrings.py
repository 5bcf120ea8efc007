"""The documentation of each public transform names the type of the elements that it returns, or that it takes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from package.public_names import MODULES

from penstock import PTransform

# What users derive transforms from, and make them by.
BASES = {"penstock.PTransform", "penstock.ptransform_fn"}


def _transforms(path: str, thing: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the transforms among a public thing and the members of its class: classes, and functions that make them."""
    if isinstance(thing, type) and issubclass(thing, PTransform):
        yield path, thing
    elif isinstance(thing, type) and depth < 2:
        for name, member in vars(thing).items():
            if not name.startswith("_") and isinstance(member, (type, staticmethod, classmethod)):
                yield from _transforms(f"{path}.{name}", getattr(member, "__func__", member), depth + 1)
    elif inspect.isfunction(thing) and re.search("PTransform|ParDo", str(thing.__annotations__.get("return", ""))):
        yield path, thing


def _public_transforms() -> dict[str, Any]:
    found: dict[int, tuple[str, Any]] = {}
    for name, module in MODULES.items():
        own = import_module(module)
        for public in own.__all__:
            for path, transform in _transforms(f"{name}.{public}", getattr(own, public, None)):
                found.setdefault(id(transform), (path, transform))
    return {path: transform for path, transform in found.values() if path not in BASES}


TRANSFORMS = _public_transforms()


@pytest.mark.parametrize("path", TRANSFORMS)
def test_the_documentation_of_a_transform_names_the_type_of_elements(path: str) -> None:
    """`PCollection[..]`, in a sentence of its own before the arguments and the example."""
    text = inspect.getdoc(TRANSFORMS[path]) or ""
    said = re.search(r"^(Returns|Takes) (a|a tuple of `n` times a) `PCollection\[[^`]+\]`", text, re.MULTILINE)
    assert said is not None, f"{path}: its documentation names no type of elements"
    assert ">>>" not in text[: said.start()]


@pytest.mark.parametrize("path", TRANSFORMS)
def test_the_type_is_the_annotated_one(path: str) -> None:
    """Where the annotation of `expand` says more than a type variable, which may have another name."""
    transform = TRANSFORMS[path]
    expand = getattr(transform, "expand", None)
    annotated = str(inspect.signature(expand).return_annotation if expand else "").replace("Iterable[", "list[")
    if re.fullmatch(r"PCollection\[.{2,}\]", annotated) and "Any" not in annotated:
        said = re.search(r"Returns a `(PCollection\[[^`]+\])`", inspect.getdoc(transform) or "")
        assert said is not None
        assert _without_names(annotated) == _without_names(said[1].replace("Iterable[", "list["))


def _without_names(hint: str) -> str:
    return re.sub(r"\b[A-Z]\b", "_", hint)


def test_there_are_many() -> None:
    """The search for transforms finds them."""
    assert {"penstock.Map", "penstock.combiners.Count.PerKey", "penstock.io.WriteToKafka"} <= TRANSFORMS.keys()
    assert 140 < len(TRANSFORMS)
