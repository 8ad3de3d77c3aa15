"""Valid names and selectors of Kubernetes."""

import re
from typing import Final

_KEY: Final = r"(?:[A-Za-z0-9][-A-Za-z0-9.]*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE: Final = r"[-A-Za-z0-9_.]*"
_REQUIREMENT: Final = (
    rf"\s*(?:!\s*{_KEY}|{_KEY}|{_KEY}\s*(?:==?|!=)\s*{_VALUE}"
    rf"|{_KEY}\s+(?:not)?in\s+\(\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*\))\s*"
)


def is_namespace(text: str) -> bool:
    """Whether it is an RFC 1123 label: at most 63 of a-z, 0-9 and -."""
    return _matches(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?", text)


def is_subdomain(text: str) -> bool:
    """Whether it is a name of most other objects: at most 253 of a-z, 0-9, - and dots."""
    return _matches(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?", text)


def is_label_value(text: str) -> bool:
    """Whether it has 1 to 63 letters, digits, -, _ and dots."""
    return _matches(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", text)


def is_selector(text: str) -> bool:
    """Whether it is a label selector with at least one requirement."""
    return _matches(rf"{_REQUIREMENT}(?:,{_REQUIREMENT})*", text)


def _matches(form: str, text: str) -> bool:
    return re.fullmatch(form, text, re.ASCII) is not None
