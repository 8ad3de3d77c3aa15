"""Sets of fields as in `managedFields`: trees of `f:name`, `k:{key}` and `v:value`.

A tree is a dict. An empty dict is a member without members below it. The key `.` beside others
means that the field itself is a member too. None is the empty set. Trees are never changed in
place.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import msgspec

from sunk_sync.embedded.kubernetes.store.schema import PLAIN, Shape

Tree = dict[str, Any]
MISSING: Any = msgspec.UNSET
_SELF = {".": Tree()}


class Difference(msgspec.Struct, frozen=True):
    added: Tree | None
    changed: Tree | None
    removed: Tree | None


def element(item: Any, shape: Shape) -> str:
    if shape.is_set:
        return "v:" + _text(item)
    if len(shape.keys) == 1 and isinstance(name := item.get(shape.keys[0]), str):
        return _named(shape.keys[0], name)
    known = {key: item.get(key, shape.defaults.get(key)) for key in shape.keys}
    return "k:" + _text({key: value for key, value in sorted(known.items()) if value is not None})


@lru_cache(maxsize=4096)
def _named(key: str, name: str) -> str:
    return "k:" + _text({key: name})


_text_of = msgspec.json.Encoder().encode


def _text(value: Any) -> str:
    return _text_of(value).decode()


def elements(value: Any, shape: Shape) -> dict[str, Any]:
    if isinstance(value, dict):
        return {"f:" + name: one for name, one in value.items()}
    return {element(item, shape): item for item in value or ()}


def divides(value: Any, shape: Shape) -> bool:
    """Whether the members of this value have owners of their own."""
    if shape.atomic:
        return False
    if isinstance(value, list):
        return bool(shape.keys) or shape.is_set
    return isinstance(value, dict)


def below(name: str, shape: Shape) -> Shape:
    return shape.of(name[2:]) if name.startswith("f:") else shape.each or PLAIN


def asked(value: Any, shape: Shape) -> Tree | None:
    """Return what an applied configuration owns: leaves, empty maps, items of lists."""
    if not divides(value, shape) or value == {}:
        return {}
    tree: Tree = {}
    if isinstance(value, dict):
        for name, one in value.items():
            plain = not isinstance(one, dict | list)
            lower = {} if plain else asked(one, shape.of(name))
            if lower is not None:
                tree["f:" + name] = lower
        return tree or None
    for name, one in elements(value, shape).items():
        lower = asked(one, shape.each or PLAIN)
        tree[name] = {**_SELF, **lower} if lower else {}
    return tree or None


def everything(value: Any, shape: Shape) -> Tree:
    """Return the set of a new value: the value and all below it."""
    if not value or not divides(value, shape):
        return {}
    parts = elements(value, shape).items()
    return {**_SELF, **{name: everything(one, below(name, shape)) for name, one in parts}}


def compare(old: Any, new: Any, *, shape: Shape) -> Difference:
    if old is new or old == new:
        return _NONE
    if old is MISSING:
        return Difference(everything(new, shape), None, None)
    if new is MISSING:
        return Difference(None, None, everything(old, shape))
    if not (divides(old, shape) or divides(new, shape)) or not _alike(old, new):
        return Difference(None, {}, None)
    if isinstance(old, dict) or isinstance(new, dict):
        return _compare_maps(old or {}, new or {}, shape)
    return _compare_parts(*_differing(old or [], new or [], shape), shape)


def _differing(old: list[Any], new: list[Any], shape: Shape) -> tuple[Tree, Tree]:
    """Return the members of both lists, without items that are equal at the same position."""
    pairs = [pair for pair in zip_longest(old, new, fillvalue=MISSING) if pair[0] is not pair[1]]
    one = [item for item, _ in pairs if item is not MISSING]
    other = [item for _, item in pairs if item is not MISSING]
    return elements(one, shape), elements(other, shape)


_NONE = Difference(None, None, None)


def _alike(old: Any, new: Any) -> bool:
    return type(old) is type(new) or old is None or new is None


def _compare_maps(old: dict[str, Any], new: dict[str, Any], shape: Shape) -> Difference:
    names = [name for name in old | new if old.get(name, MISSING) != new.get(name, MISSING)]
    one = {"f:" + name: old[name] for name in names if name in old}
    other = {"f:" + name: new[name] for name in names if name in new}
    return _compare_parts(one, other, shape)


def _compare_parts(old: dict[str, Any], new: dict[str, Any], shape: Shape) -> Difference:
    added, changed, removed = Tree(), Tree(), Tree()
    for name in old | new:
        one, other = old.get(name, MISSING), new.get(name, MISSING)
        if one is other:
            continue
        difference = compare(one, other, shape=below(name, shape))
        if difference.added is not None:
            added[name] = difference.added
        if difference.changed is not None:
            changed[name] = difference.changed
        if difference.removed is not None:
            removed[name] = difference.removed
    return Difference(added or None, changed or None, removed or None)


def is_member(tree: Tree) -> bool:
    """Whether the field itself is in the set, not only fields below it."""
    return not tree or "." in tree


def union(one: Tree | None, other: Tree | None) -> Tree | None:
    if one is None or other is None or one is other:
        return other if one is None else one
    if not one or not other:
        rest = one or other
        return {**_SELF, **rest} if rest else {}
    joined = dict(one)
    for name, lower in other.items():
        joined[name] = union(joined.get(name), lower)
    return joined


def subtract(one: Tree | None, other: Tree | None) -> Tree | None:
    if one is None or other is None:
        return one
    kept = {}
    for name, lower in one.items():
        rest = lower if name not in other else subtract(lower, other[name])
        if name != "." and rest is not None:
            kept[name] = rest
    if is_member(one) and not is_member(other):
        return {**_SELF, **kept} if kept else {}
    return kept or None


def intersect(one: Tree | None, other: Tree | None) -> Tree | None:
    if one is None or other is None:
        return None
    kept = {}
    for name in one.keys() & other.keys() - {"."}:
        both = intersect(one[name], other[name])
        if both is not None:
            kept[name] = both
    if is_member(one) and is_member(other):
        return {**_SELF, **kept} if kept else {}
    return kept or None


def paths(tree: Tree, start: str = "") -> Iterator[str]:
    """Return the members as error texts write them: `.status.conditions[type="Ready"].status`"""
    for name, lower in sorted(tree.items()):
        if name == ".":
            continue
        path = start + _spelled(name)
        if is_member(lower):
            yield path
        yield from paths(lower, path)


def _spelled(name: str) -> str:
    if name.startswith("f:"):
        return "." + name[2:]
    if name.startswith("v:"):
        return f"[={name[2:]}]"
    keys: dict[str, Any] = msgspec.json.decode(name[2:])
    return "[" + ",".join(f"{key}={_text(value)}" for key, value in keys.items()) + "]"
