"""Ownership of fields: `metadata.managedFields`, plain writes and server-side apply.

Follows structured-merge-diff, the library of the real server. An Apply owns the fields in its
configuration, a plain write those that it changes. An Apply removes fields that it owned and no
longer lists, unless they have another owner.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from msgspec import Struct

from sunk_sync.embedded.kubernetes.store.fields import (
    MISSING,
    Difference,
    Tree,
    asked,
    below,
    compare,
    divides,
    elements,
    intersect,
    is_member,
    paths,
    subtract,
    union,
)
from sunk_sync.embedded.kubernetes.store.kinds import Kind, Object
from sunk_sync.embedded.kubernetes.store.refusal import RefusalError, bad_request
from sunk_sync.embedded.kubernetes.store.schema import SHAPES, Shape

OWNED_METADATA = ("annotations", "labels", "ownerReferences", "finalizers", "generateName")
BEFORE = "before-first-apply"


class Owner(NamedTuple):
    """An owner of fields; `subresource` is `status` or empty."""

    manager: str
    operation: str
    api_version: str
    subresource: str


class Held(NamedTuple):
    """The fields of one owner, and when it last took one (RFC 3339; empty: never)."""

    fields: Tree
    at: str


Owners = dict[Owner, Held]


class Writing(Struct, frozen=True, kw_only=True):
    kind: Kind
    manager: str
    subresource: str
    at: str

    def owner(self, operation: str) -> Owner:
        return Owner(self.manager, operation, self.kind.api_version, self.subresource)

    @property
    def shape(self) -> Shape:
        return SHAPES[self.kind.name]

    @property
    def kept(self) -> tuple[str, ...]:
        return self.kind.kept_by_status if self.subresource else self.kind.kept_by_main


def decoded(an_object: Object) -> Owners:
    return {
        Owner(
            one["manager"],
            one["operation"],
            one["apiVersion"],
            one.get("subresource", ""),
        ): Held(one["fieldsV1"], one.get("time", ""))
        for one in an_object["metadata"].get("managedFields", ())
    }


def encoded(owners: Owners) -> list[Object]:
    """Encode `metadata.managedFields`: appliers first, then by time."""
    order = sorted(owners.items(), key=lambda item: (item[0].operation, item[1].at, item[0]))
    return [_entry(owner, held) for owner, held in order]


def _entry(owner: Owner, held: Held) -> Object:
    entry: Object = {
        "manager": owner.manager,
        "operation": owner.operation,
        "apiVersion": owner.api_version,
        "time": held.at or None,
        "fieldsType": "FieldsV1",
        "fieldsV1": held.fields,
    }
    if owner.subresource:
        entry["subresource"] = owner.subresource
    if not held.at:
        del entry["time"]
    return entry


def owned_part(an_object: Object, kept: tuple[str, ...]) -> Object:
    """Return the part of the object that can have owners, without parts that the write keeps."""
    skipped = {"apiVersion", "kind", "metadata", *kept}
    part = {name: value for name, value in an_object.items() if name not in skipped}
    metadata = an_object.get("metadata", {})
    part["metadata"] = {name: metadata[name] for name in OWNED_METADATA if name in metadata}
    return part


def created(new: Object, writing: Writing) -> list[Object]:
    return encoded(_taken({}, _since_blank(new, writing), writing.owner("Update"), at=writing.at))


def updated(old: Object, new: Object, *, writing: Writing) -> list[Object]:
    """Return the owners after a plain write; an object without owners stays so."""
    listed: list[Object] = old["metadata"].get("managedFields", [])
    if not listed:
        return listed
    difference = _difference(old, new, writing)
    if difference.added is difference.changed is difference.removed:
        return listed
    return encoded(_taken(decoded(old), difference, writing.owner("Update"), at=writing.at))


def _difference(old: Object, new: Object, writing: Writing) -> Difference:
    kept = writing.kept
    return compare(owned_part(old, kept), owned_part(new, kept), shape=writing.shape)


def _since_blank(new: Object, writing: Writing) -> Difference:
    return _difference({**writing.kind.blank, "metadata": {}}, new, writing)


def _taken(owners: Owners, difference: Difference, writer: Owner, *, at: str) -> Owners:
    """Give the writer what it added and changed; nobody owns what it removed."""
    touched = union(difference.added, difference.changed)
    rest = _without(owners, touched, but=writer)
    if touched is not None:
        before = rest[writer].fields if writer in rest else None
        rest[writer] = Held(union(before, touched) or {}, at)
    return _without(rest, difference.removed)


def _without(owners: Owners, fields: Tree | None, *, but: Owner | None = None) -> Owners:
    if fields is None:
        return dict(owners)
    left = {}
    for owner, held in owners.items():
        rest = held.fields if owner == but else subtract(held.fields, fields)
        if rest is not None:
            left[owner] = held if rest is held.fields else Held(rest, held.at)
    return left


def applied(live: Object, asked_for: Object, *, writing: Writing, force: bool) -> Object:
    """Return the object after this Apply, with its owners. RefusalError on a conflict."""
    me, shape = writing.owner("Apply"), writing.shape
    owners = decoded(live) or _before_first(live, writing)
    config = owned_part(asked_for, writing.kept)
    if not config["metadata"]:
        del config["metadata"]
    last = owners.pop(me, None)
    mine = asked(config, shape) if config else None
    if mine is not None:
        owners[me] = Held(mine, last.at if last else "")
    part = owned_part(live, writing.kept)
    merged = merge(part, config, shape=shape)
    if last is not None and subtract(last.fields, mine) is not None:
        named = Held({"f:metadata": {"f:name": {}}}, "") if "metadata" in asked_for else None
        merged = _pruned(merged, last.fields, [*owners.values(), named], shape)
        if "metadata" not in merged:
            raise nameless(live["metadata"]["name"])
    difference = compare(part, merged, shape=shape)
    owners = _settled(owners, difference, me, force=force)
    if me in owners and merged != part:
        owners[me] = Held(owners[me].fields, writing.at)
    return _with_part(live, merged, writing.kept, owners=encoded(owners))


def nameless(name: str) -> RefusalError:
    what = f"the name of the object ({name} based on URL) was undeterminable"
    return bad_request(f"{what}: name must be provided")


def _before_first(live: Object, writing: Writing) -> Owners:
    """Give fields that exist before the first Apply to an owner `before-first-apply`."""
    everybody = Owner(BEFORE, "Update", writing.kind.api_version, writing.subresource)
    return _taken({}, _since_blank(live, writing), everybody, at=writing.at)


def _settled(owners: Owners, difference: Difference, me: Owner, *, force: bool) -> Owners:
    touched = union(difference.added, difference.changed)
    contested = {
        owner: both
        for owner, held in owners.items()
        if owner != me and (both := intersect(held.fields, touched)) is not None
    }
    if contested and not force:
        raise _conflicts(contested)
    return _without(_without(owners, touched, but=me), difference.removed)


def _conflicts(contested: dict[Owner, Tree]) -> RefusalError:
    causes = []
    lines: dict[str, list[str]] = {}
    for owner in sorted(contested, key=lambda one: (one[:3], not one.subresource)):
        who = _called(owner)
        for path in paths(contested[owner]):
            lines.setdefault(who, []).append(f"- {path}")
            cause = {"reason": "FieldManagerConflict", "message": f"conflict with {who}"}
            causes.append({**cause, "field": path})
    if len(causes) == 1:
        text = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        parts = [f"conflicts with {who}:\n" + "\n".join(each) for who, each in lines.items()]
        text = f"{len(causes)} conflicts: " + "\n".join(parts)
    message = f"Apply failed with {text}"
    return RefusalError(409, "Conflict", message, details={"causes": causes})


def _called(owner: Owner) -> str:
    under = f' with subresource "{owner.subresource}"' if owner.subresource else ""
    version = f" using {owner.api_version}" if owner.operation == "Update" else ""
    return f'"{owner.manager}"{under}{version}'


def _with_part(
    live: Object, part: Object, kept: tuple[str, ...], *, owners: list[Object]
) -> Object:
    """Return the live object with its owned part replaced."""
    rest = {name: live[name] for name in ("apiVersion", "kind", *kept) if name in live}
    metadata = {
        name: value for name, value in live["metadata"].items() if name not in OWNED_METADATA
    }
    metadata.update(part.get("metadata", {}))
    metadata["managedFields"] = owners
    return {**rest, **part, "metadata": metadata}


def merge(live: Any, config: Any, *, shape: Shape) -> Any:
    if live is MISSING or live is None or not divides(config, shape):
        return config
    if isinstance(config, dict):
        merged = dict(live)
        for name, value in config.items():
            merged[name] = merge(live.get(name, MISSING), value, shape=shape.of(name))
        return merged
    return _merge_lists(live, config, shape)


def _merge_lists(live: list[Any], config: list[Any], shape: Shape) -> list[Any]:
    """Merge two lists: items in the order of the configuration, others in their old position."""
    wanted = elements(config, shape)
    there = elements(live, shape)
    shared = [name for name in wanted if name in there]
    merged: list[Any] = []
    left = list(wanted)
    for name, item in there.items():
        if name not in wanted:
            merged.append(item)
        elif shared and name == shared[0]:
            while left and left[0] != name:
                merged.append(_merged_item(left.pop(0), there, wanted, shape))
            if left:
                merged.append(_merged_item(left.pop(0), there, wanted, shape))
            shared = [one for one in shared if one in left]
    return merged + [_merged_item(name, there, wanted, shape) for name in left]


def _merged_item(name: str, there: dict[str, Any], wanted: dict[str, Any], shape: Shape) -> Any:
    return merge(there.get(name, MISSING), wanted[name], shape=below(name, shape))


def _pruned(merged: Object, last: Tree, owners: Iterable[Held | None], shape: Shape) -> Object:
    """Remove what this owner applied last time and no owner wants now.

    The field above counts as applied too: if nobody owns anything below it, all of it is removed,
    also parts that never had an owner (as the real server does).
    """
    if not last:
        return merged
    owned: Tree | None = None
    for held in owners:
        owned = union(owned, held.fields if held else None)
    pruned: Object = _strip(merged, last, owned, shape)
    return pruned


def _strip(value: Any, last: Tree, owned: Tree | None, shape: Shape) -> Any:
    if not divides(value, shape):
        return value
    parts = elements(value, shape)
    for name, lower in last.items():
        if name not in parts:
            continue
        held = None if owned is None else owned.get(name)
        named = name.startswith("f:")
        stays = held is not None and (named or is_member(held))
        if not stays and (named or is_member(lower)):
            del parts[name]
        else:
            rest = _strip(parts[name], lower, held if stays else None, below(name, shape))
            parts[name] = rest
    if isinstance(value, dict):
        return {name[2:]: part for name, part in parts.items()}
    return list(parts.values())
