"""JSON merge patch and strategic merge patch. Both share with the old object what they leave."""

from collections.abc import Callable
from typing import Any

from sunk_sync.embedded.kubernetes.store.refusal import RefusalError
from sunk_sync.embedded.kubernetes.store.schema import MERGE_KEYS, PLAIN, Shape

_DIRECTIVE = "$patch"
_ORDER = "$setElementOrder/"


def merged(old: Any, patch: Any) -> Any:
    """RFC 7396: null removes, maps are merged, everything else is replaced."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def strategic(old: Any, patch: Any, *, shape: Shape) -> Any:
    """As `merged`, but lists with keys are merged item by item; `$patch` deletes or replaces.

    RefusalError where an item of such a list does not say its key.
    """
    if not isinstance(patch, dict):
        return patch
    if patch.get(_DIRECTIVE) == "replace":
        return {name: value for name, value in patch.items() if name != _DIRECTIVE}
    result = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        if value is None:
            result.pop(name, None)
            continue
        lower, key = shape.of(name), _merge_key(name, shape)
        if key and isinstance(value, list):
            order = [one.get(key) for one in patch.get(_ORDER + name, value)]
            result[name] = _Merging(key, lower.each or PLAIN).run(
                result.get(name) or [], value, order=order
            )
        elif lower.is_set and isinstance(value, list):
            result[name] = _joined(result.get(name) or [], value)
        else:
            result[name] = strategic(result.get(name), value, shape=lower)
    return result


def _merge_key(name: str, shape: Shape) -> str:
    keys = shape.of(name).keys
    return MERGE_KEYS.get(name, keys[0] if keys else "")


def _joined(old: list[Any], patch: list[Any]) -> list[Any]:
    """Two lists of scalars, each of which stands there once."""
    others = [one for one in old if one not in patch]
    return _interleaved(others, list(dict.fromkeys(patch)), place=old.index)


def _interleaved(
    others: list[Any], patched: list[Any], *, place: Callable[[Any], int]
) -> list[Any]:
    """Each of the others goes before the next patched item that stood behind it.

    `place` says where an item stood; it raises ValueError where it did not.
    """
    result: list[Any] = []
    left, right = list(others), list(patched)
    while left and right:
        try:
            before = place(left[0]) < place(right[0])
        except ValueError:
            before = False
        result.append((left if before else right).pop(0))
    return [*result, *left, *right]


class _Merging:
    """Merges one list whose items are told apart by `key`."""

    def __init__(self, key: str, each: Shape) -> None:
        self._key = key
        self._each = each

    def run(self, old: list[Any], patch: list[Any], *, order: list[Any]) -> list[Any]:
        """Patched items in `order`; the others keep theirs, before those they stood before."""
        if any(item.get(_DIRECTIVE) == "replace" for item in patch):
            return [item for item in patch if _DIRECTIVE not in item]
        deleted = {self._of(item) for item in patch if item.get(_DIRECTIVE) == "delete"}
        there = {item.get(self._key): item for item in old}
        new = {
            self._of(item): strategic(there.get(self._of(item)), item, shape=self._each)
            for item in patch
            if _DIRECTIVE not in item
        }
        left = {key: item for key, item in (there | new).items() if key not in deleted}
        arranged = [left[key] for key in dict.fromkeys([*order, *new]) if key in left]
        others = [left[key] for key in left if key not in order and key not in new]
        places = list(there)
        return _interleaved(others, arranged, place=lambda item: places.index(item.get(self._key)))

    def _of(self, item: Any) -> Any:
        if self._key not in item:
            text = f"map: {item} does not contain declared merge key: {self._key}"
            raise RefusalError(500, "", text)
        return item[self._key]
