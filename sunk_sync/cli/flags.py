"""The settings as flags: help, default and form of the value."""

import argparse
import ast
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

from sunk_sync.settings import model
from sunk_sync.settings.model import FIELDS, Settings, flag_of, key_of
from sunk_sync.settings.types import Address

_FORMS = {"s": "DURATION", "file": "FILE", "kubeconfig": "FILE", "policy": "FILE", "minute": "N"}
_FORMS |= {"address": "HOST:PORT", "base": "URL,…", "components": "LIST", "namespace": "LIST"}
_FORMS |= {"object": "LIST", "endpoint": "URL", "sample": "SHARE"}
_FORMS |= {"map": "KEY=VALUE,…", "types": "KEY=VALUE,…"}
"""The form of a value, by the last word of the setting's name."""


class About(NamedTuple):
    """One setting in the help."""

    field: str
    group: str
    text: str
    default: str
    form: str
    switch: bool
    """True or false: the flag alone means true."""


def add_flags(parser: argparse.ArgumentParser) -> Mapping[str, bool]:
    """Add every setting in its group: each flag, and whether it is a switch.

    All values stay text here: `settings.sources` checks them.
    """
    groups: dict[str, argparse._ArgumentGroup] = {}
    parser.add_argument(
        "--config",
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="YAML file of settings; flags and SUNK_SYNC_… variables win over it",
    )
    for about in ABOUT:
        if about.group not in groups:
            groups[about.group] = parser.add_argument_group(about.group)
        groups[about.group].add_argument(
            flag_of(about.field),
            default=argparse.SUPPRESS,
            dest=key_of(about.field),
            metavar=about.form,
            help=f"{about.text} (default: {about.default})".replace("%", "%%"),
        )
    return {flag_of(about.field): about.switch for about in ABOUT} | {"--config": False}


def _texts() -> Mapping[str, str]:
    """Return the docstring of each setting; only the source contains it, only the help needs it."""
    texts = {}
    tree = ast.parse(Path(model.__file__).read_text(encoding="utf-8"))
    for row, below in pairwise(node for top in tree.body for node in getattr(top, "body", ())):
        if isinstance(row, ast.AnnAssign) and isinstance(below, ast.Expr):
            texts[ast.unparse(row.target)] = " ".join(ast.literal_eval(below.value).split())
    return texts


def _about(name: str, text: str) -> About:
    field = Settings.model_fields[name]
    notes = field.json_schema_extra
    assert isinstance(notes, dict)
    return About(
        field=name,
        group=str(notes["group"]),
        text=text,
        default=str(notes["shown"]) or _shown(field.default),
        form=_form(name, field.annotation),
        switch=field.annotation is bool,
    )


def _form(name: str, kind: Any) -> str:
    if kind is bool:
        return "true|false"
    if get_origin(kind) is Literal and len(get_args(kind)) < 5:
        return "|".join(get_args(kind))
    return _FORMS.get(name.rpartition("_")[2], "TEXT")


def _shown(default: object) -> str:
    match default:
        case None:
            return "unset"
        case bool():
            return str(default).lower()
        case float():
            return f"{default:g}s"
        case tuple() if not isinstance(default, Address):
            return ",".join("=".join(one) if isinstance(one, tuple) else one for one in default)
        case _:
            return str(default)


_text_of = _texts()
ABOUT = tuple(_about(name, _text_of.get(name, "")) for name in FIELDS)
