"""What versions of sunk-sync have written, by format: `samples/FORMAT.json`.

`since` is the day of the first version that wrote a sample. `until` is the day of the first version
that writes something else instead; the sample stays, because clusters still contain it. The texts
come from the code of that day.
"""

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "samples"
FUTURE = "field-of-a-later-version"


def read(name: str) -> list[Any]:
    samples: list[Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return samples


def each(name: str, *, written: bool = False) -> pytest.MarkDecorator:
    """Run a test with each sample of a format; `written`: only those that are still written."""
    samples = [one for one in read(name) if not (written and "until" in one)]
    ids = [f"{one['since']}-{place}" for place, one in enumerate(samples)]
    return pytest.mark.parametrize("sample", samples, ids=ids)


def with_more(text: str) -> str:
    """Add fields to a text with one JSON object: in it, and in the object of its first key."""
    parsed = json.loads(text)
    inner = next(iter(parsed.values()))
    inner |= {FUTURE: {"deep": [1]}}
    return json.dumps({FUTURE: "x", **parsed, f"{FUTURE}-2": None})
