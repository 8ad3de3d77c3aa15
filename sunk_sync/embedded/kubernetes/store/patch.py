"""JSON merge patch and strategic merge patch. Unchanged parts are shared with the old object."""

from collections.abc import Callable
from typing import Any

from sunk_sync.embedded.kubernetes.store.refusal import RefusalError
from sunk_sync.embedded.kubernetes.store.schema import MERGE_KEYS, PLAIN, Shape

_DIRECTIVE = "$patch"
_ORDER = "$setElementOrder/"


def merged(old: Any, patch: Any) -> Any:
    """Apply a patch of RFC 7396: null removes, maps are merged, other values are replaced."""
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
    """Apply a strategic merge patch: lists with keys are merged by item.

    `$patch` deletes or replaces. Raises RefusalError if an item of such a list lacks its key.
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
    others = [one for one in old if one not in patch]
    return _interleaved(others, list(dict.fromkeys(patch)), place=old.index)


def _interleaved(
    others: list[Any], patched: list[Any], *, place: Callable[[Any], int]
) -> list[Any]:
    """Put each of the others before the next patched item that was after it in the old list.

    `place` returns the old position of an item; it raises ValueError if there is none.
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
    """Merges one list whose items are identified by `key`."""

    def __init__(self, key: str, each: Shape) -> None:
        self._key = key
        self._each = each

    def run(self, old: list[Any], patch: list[Any], *, order: list[Any]) -> list[Any]:
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
