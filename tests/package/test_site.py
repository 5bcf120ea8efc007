"""The site that `make docs` builds: no warning, no broken link, every public name, and a search that finds answers."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator
from importlib import import_module

import pytest
from package.site import Site, build_site
from package.unpack_wheel import ROOT

REFERENCE = ROOT / "docs" / "reference"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The site, built once for all tests here."""
    return build_site(tmp_path_factory.mktemp("docs") / "site")


@pytest.fixture(scope="module")
def search(site: Site) -> Iterator[Callable[[str], list[str]]]:
    """The search of the site."""
    with site.searching() as found:
        yield found


def documented() -> dict[str, list[object]]:
    """What the reference describes, by module."""
    found: dict[str, list[object]] = {}
    for page in REFERENCE.glob("*.md"):
        for module, names in re.findall(r"```\{names\} (\S+)\n(.*?)```", page.read_text(), re.DOTALL):
            found.setdefault(module, []).extend(getattr(import_module(module), name) for name in names.split())
    return found


def test_every_link_within_the_site_leads_to_a_page_or_a_place_on_it(site: Site) -> None:
    """Those to files of the checkout as well, which the site has as downloads."""
    assert [] == site.broken_links()


def test_a_link_to_a_missing_place_is_found(tmp_path: pathlib.Path) -> None:
    """Or the test above shows nothing."""
    (tmp_path / "a.html").write_text('<h1 id="one"></h1><a href="a.html#one"></a><a href="a.html#two"></a><a href="b">')

    assert ["a.html: a.html#two", "a.html: b"] == Site(tmp_path).broken_links()


@pytest.mark.parametrize(
    "module",
    [
        "penstock",
        "penstock.io",
        "penstock.transforms.combiners",
        "penstock.windowing",
        "penstock.triggers",
        "penstock.testing",
        "penstock.options",
        "penstock.sdk.typehints",
        "penstock.dataframe",
        "penstock.metrics",
    ],
)
def test_the_reference_describes_every_public_class_and_function_of(module: str) -> None:
    """A new public name has to be added to a page, under any of its modules."""
    own = import_module(module)
    described = [id(thing) for things in documented().values() for thing in things]

    missing = [
        name
        for name in own.__all__
        if (isinstance(thing := getattr(own, name), type) or callable(thing)) and id(thing) not in described
    ]
    assert NOT_DESCRIBED.get(module, []) == missing


# What user code doesn't call.
NOT_DESCRIBED = {
    "penstock.windowing": [
        "DurationTypes", "TimestampTypes", "micros_of", "checked_windows", "default_window_mapping_fn", "for_element",
        "combined", "at_fire",
    ],
    "penstock.metrics": [
        "MetricsContainer", "ReportsByStep", "StepMetrics", "merge_apart", "report_apart", "scoped",
    ],
}  # fmt: skip


@pytest.mark.parametrize("module", sorted(documented()))
def test_every_name_in_the_reference_has_an_example(module: str) -> None:
    """`tests/package/test_docstrings.py` runs them."""
    names = [name for found, name in NAMES_OF_THE_REFERENCE if found == module]

    assert [] == [name for name in names if ">>>" not in (getattr(import_module(module), name).__doc__ or "")]


NAMES_OF_THE_REFERENCE = [
    (module, name)
    for page in sorted(REFERENCE.glob("*.md"))
    for module, names in re.findall(r"```\{names\} (\S+)\n(.*?)```", page.read_text(), re.DOTALL)
    for name in names.split()
]


QUESTIONS = re.findall(
    r"^\| (.*\?) \| \[.*\]\(([\w/]+)\.md#?[\w-]*\) \| (.*) \|$",
    (ROOT / "docs" / "questions.md").read_text(),
    re.MULTILINE,
)


def test_there_are_fifty_questions() -> None:
    """Each of them once."""
    assert len({question for question, _, _ in QUESTIONS}) == len(QUESTIONS) >= 50


def test_the_search_finds_the_answer_to_each_question(search: Callable[[str], list[str]]) -> None:
    """The page is the first hit for the question, and among the first three for each of the other words."""
    missed = [(question, found[:3]) for question, page, _ in QUESTIONS if page not in (found := search(question))[:1]]
    phrases = [(phrase, page) for _, page, words in QUESTIONS for phrase in words.split(", ")]
    missed += [(phrase, found[:3]) for phrase, page in phrases if page not in (found := search(phrase))[:3]]

    assert [] == missed


# As people type them: questions of the page in other words, which are in no list of it.
TYPED = {
    "join slowly changing": "howto/joins",
    "late elements": "howto/late_data",
    "nothing emitted": "howto/nothing_emitted",
    "custom source": "howto/source",
    "kafka offsets": "connectors/kafka",
    "hot keys": "howto/skew",
    "sessions": "cookbook",
    "timers": "howto/stateful_dofn",
    "savepoint": "streaming",
    "retractions": "retractions",
    "CombinePerKey": "reference/transforms",
    "ReadFromParquet": "reference/io",
    "AfterProcessingTime": "reference/triggers",
}


@pytest.mark.parametrize("query", TYPED)
def test_the_search_finds_what_people_type(search: Callable[[str], list[str]], query: str) -> None:
    """Among the first five hits."""
    assert TYPED[query] in search(query)[:5]
