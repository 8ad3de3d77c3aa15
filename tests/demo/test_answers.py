"""The outputs in docs/questions.md are those of today's commands."""

import re

import pytest

from tests.demo.answers import FILE, collected, renewed, some_of

_CHANGES = re.compile(r"\d[\d.:TZ-]*( [smhd]\b)?|[-+ …]+$", re.MULTILINE)
"""Numbers, times and ages, and where a long line was cut."""


def shape(text: str) -> str:
    return "\n".join(_CHANGES.sub("#", line)[:100] for line in text.splitlines())


@pytest.mark.night("it plays each situation in real time, a minute")
async def test_the_page_of_questions_prints_what_the_commands_say() -> None:
    """Otherwise run `python -m tests.demo.answers`."""
    page = FILE.read_text(encoding="utf-8")
    made = await collected()
    assert shape(renewed(page, made)) == shape(page)
    assert len(made) == page.count("<!-- output ")


def test_lines_that_are_left_out_are_shown_as_dots() -> None:
    assert some_of("head\n  a 1\n  b\n  c\n  a 2\n  d", "a ") == "head\n  a 1\n  …\n  a 2\n  …"


def test_a_block_without_a_place_on_the_page_is_an_error() -> None:
    with pytest.raises(LookupError, match="no place for doctor"):
        renewed("nothing", [("doctor", "text")])
