"""Parsing of labelSelector and fieldSelector."""

import re
from collections.abc import Callable, Mapping

from sunk_sync.embedded.kubernetes.store.kinds import Kind, Object
from sunk_sync.embedded.kubernetes.store.refusal import bad_request

Selector = Callable[[Object], bool]
_Claim = Callable[[Mapping[str, str]], bool]

_WORD = r"[A-Za-z0-9_./-]+"
_SETS = re.compile(rf"\s*({_WORD})\s+(in|notin)\s+\(([^()]*)\)\s*")
_COMPARES = re.compile(rf"\s*({_WORD})\s*(==|=|!=)\s*([A-Za-z0-9_.-]*)\s*")
_EXISTS = re.compile(rf"\s*(!?)\s*({_WORD})\s*")
_NO_LABELS: Mapping[str, str] = {}


def selector_of(kind: Kind, *, labels: str, fields: str) -> Selector | None:
    """Return a predicate, None if all objects match; RefusalError if a selector is malformed."""
    claims = [_label(text) for text in _split(labels)]
    asked = [_field(kind, text) for text in fields.split(",") if text]
    if not claims and not asked:
        return None

    def counts(an_object: Object) -> bool:
        own = an_object["metadata"].get("labels", _NO_LABELS)
        return all(claim(own) for claim in claims) and all(one(an_object) for one in asked)

    return counts


def _split(text: str) -> list[str]:
    return [part for part in re.split(r",(?![^()]*\))", text) if part.strip()]


def _label(text: str) -> _Claim:
    if match := _SETS.fullmatch(text):
        name, operator, listed = match.groups()
        values = {value.strip() for value in listed.split(",")}
        if operator == "in":
            return lambda own: own.get(name) in values
        return lambda own: own.get(name) not in values
    if match := _COMPARES.fullmatch(text):
        name, operator, value = match.groups()
        if operator == "!=":
            return lambda own: own.get(name) != value
        return lambda own: own.get(name) == value
    if match := _EXISTS.fullmatch(text):
        negated, name = match.groups()
        return lambda own: (name in own) is not bool(negated)
    raise bad_request(_why(text))


def _why(text: str) -> str:
    words = text.split()
    found = words[1] if len(words) > 1 else ""
    expected = "in, notin, =, ==, !=, gt, lt"
    return f"unable to parse requirement: found '{found}', expected: {expected}"


def _field(kind: Kind, text: str) -> Selector:
    match = re.fullmatch(r"\s*([^=!]+?)(==|=|!=)(.*)", text)
    if match is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    name, operator, value = match.groups()
    read = kind.fields.get(name)
    if read is None:
        raise bad_request(f"field label not supported: {name}")
    if operator == "!=":
        return lambda an_object: read(an_object) != value
    return lambda an_object: read(an_object) == value
