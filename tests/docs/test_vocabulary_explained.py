"""No word of the vocabulary without an explanation, no explanation of a word that there is not."""

import re

import pytest

from gpudissect.vocabulary import ATTRIBUTES, ELEMENTS
from making import tables
from making.attribute_pictures import PICTURES
from tests.support.pages import DOCS

ON_ATTRIBUTES = sorted((DOCS / "attributes").glob("*.md"))
VOCABULARY = (DOCS / "reference" / "vocabulary.md").read_text(encoding="utf-8")


def test_every_attribute_is_defined_on_a_page():
    missing = sorted(set(ATTRIBUTES) - set(tables.definitions()))
    assert not missing, f"define on a page of docs/attributes, as `word` and, in the next line, ':   ': {missing}"


def test_nothing_is_defined_that_there_is_not():
    assert set(tables.definitions()) <= set(ATTRIBUTES)


def test_no_attribute_is_defined_twice():
    every = [word for page in ON_ATTRIBUTES for word in tables.DEFINITION.findall(page.read_text(encoding="utf-8"))]
    assert len(every) == len(set(every))


def test_every_element_is_explained():
    explained = set(re.findall(r"`([a-z0-9_]+)`", VOCABULARY.split("## Elements", 1)[1]))
    assert not sorted(set(ELEMENTS) - explained)


@pytest.mark.parametrize("page", ON_ATTRIBUTES, ids=lambda page: page.stem)
def test_heads_of_pages_name_words_that_there_are(page):
    elements, attributes = tables.subjects(page.read_text(encoding="utf-8"))
    assert set(elements) <= set(ELEMENTS)
    assert set(attributes) <= set(ATTRIBUTES)
    assert bool(attributes) == ("<!-- made: h200 -->" in page.read_text(encoding="utf-8"))


def test_the_table_names_every_attribute():
    table = tables.attributes()
    assert all(f"| `{attribute}` |" in table for attribute in ATTRIBUTES)


def test_every_page_of_attributes_stands_in_their_index():
    index = (DOCS / "attributes" / "index.md").read_text(encoding="utf-8")
    assert all(f"]({page.name})" in index for page in ON_ATTRIBUTES if page.name != "index.md")


def test_every_page_of_attributes_has_a_picture_and_every_picture_a_page():
    shown = {
        page.name: set(re.findall(r"<!-- made: picture (\S+) -->", page.read_text(encoding="utf-8")))
        for page in ON_ATTRIBUTES
    }
    assert all(pictures for name, pictures in shown.items() if name != "index.md")
    assert set().union(*shown.values()) == set(PICTURES)
