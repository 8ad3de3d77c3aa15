"""The REST API of the embedded Kubernetes: from a request to a response or an open watch."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from sunk_sync.embedded.kubernetes.api.bodies import (
    APPLY,
    MERGE,
    PATCH_TYPES,
    checked_kind,
    decoded,
    decoded_patch,
    delete_options,
    manager_of,
)
from sunk_sync.embedded.kubernetes.api.discovery import DOCUMENTS, DOCUMENTS_WITH_NODE_SETS
from sunk_sync.embedded.kubernetes.api.reads import (
    Listed,
    check_watch,
    first_of,
    list_metadata,
    listed_of,
    not_a_number,
    number_of,
    page_of,
)
from sunk_sync.embedded.kubernetes.api.table import rows_of, table, wants_table
from sunk_sync.embedded.kubernetes.api.watch import (
    TIMEOUT_S,
    Render,
    Scope,
    Subscription,
    head_of,
    whole,
)
from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.embedded.kubernetes.store.kinds import (
    KINDS,
    KNOWN_KINDS,
    NODE_SETS,
    PODS,
    REVIEWS,
    Kind,
    Object,
)
from sunk_sync.embedded.kubernetes.store.patch import merged, strategic
from sunk_sync.embedded.kubernetes.store.place import Place
from sunk_sync.embedded.kubernetes.store.refusal import (
    RefusalError,
    StatusCause,
    bad_request,
    forbidden,
    invalid_options,
    no_such_method,
    no_such_path,
    not_found,
    required,
    success,
    too_large,
)
from sunk_sync.embedded.kubernetes.store.schema import SHAPES
from sunk_sync.embedded.kubernetes.store.store import Stored
from sunk_sync.embedded.wire import Answer, Question

_HEALTH = ("/livez", "/readyz", "/healthz")
_ROOTS = {(kind.root, kind.plural): kind for kind in KNOWN_KINDS}
_HEADS = {kind.plural: head_of(kind) for kind in KNOWN_KINDS}
_BOUND = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}

_encode = msgspec.json.Encoder().encode


class RequestTarget(Struct, frozen=True, kw_only=True):
    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target_of(path: str) -> RequestTarget | None:
    parts = path.strip("/").split("/")
    depth = 2 if parts[0] == "api" else 3
    root, rest = "/" + "/".join(parts[:depth]), parts[depth:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and (root, rest[2]) in _ROOTS:
        namespace, rest = rest[1], rest[2:]
    kind = _ROOTS.get((root, rest[0])) if rest else None
    if kind is None or len(rest) > 3 or (namespace and not kind.namespaced):
        return None
    name, subresource = [*rest[1:], "", ""][:2]
    known = ("", *(("status",) if kind.has_status else ()), *(("binding",) if kind is PODS else ()))
    if subresource not in known or (name and kind.namespaced and not namespace):
        return None
    return RequestTarget(kind=kind, namespace=namespace, name=name, subresource=subresource)


class KubeApi:
    """Answers requests about one cluster. Never raises."""

    def __init__(self, world: Kubernetes) -> None:
        self.world = world

    def answer(self, question: Question, now_s: float) -> Answer | Subscription:
        """Return the response at that time, or a Subscription for a watch."""
        self.world.advance(now_s)
        try:
            return self._answer(question)
        except RefusalError as refusal:
            return Answer(status=refusal.status, body=_encode(refusal.body))

    def _answer(self, question: Question) -> Answer | Subscription:
        path = question.path
        if path in _HEALTH:
            return Answer(body=b"ok", content_type="text/plain; charset=utf-8")
        target = target_of(path)
        if target is None or not self.world.store.has_kind(target.kind):
            return self._elsewhere(question)
        method = question.method
        if target.subresource == "binding":
            if method != "POST":
                raise no_such_method()
            return self._bind(question, target)
        if not target.name:
            return self._collection(question, target)
        if method == "GET":
            return self._get(question, target)
        if method == "PATCH":
            return self._patch(question, target)
        if method == "PUT":
            return self._put(question, target)
        if method == "DELETE" and not target.subresource:
            return self._delete(question, target)
        raise no_such_method()

    def _elsewhere(self, question: Question) -> Answer:
        document = self._document(question.path)
        if document is not None:
            return Answer(body=_encode(document))
        if question.path == f"{REVIEWS.root}/{REVIEWS.plural}" and question.method == "POST":
            return self._review(question)
        parts = question.path.split("/")
        known = question.path.startswith(("/api/", *(f"{kind.root}/" for kind in KINDS)))
        if known and len(parts) > 2:
            raise no_such_path()
        text = "text/plain; charset=utf-8"
        return Answer(status=404, body=b"404 page not found\n", content_type=text)

    def _document(self, path: str) -> Object | None:
        installed = self.world.store.has_kind(NODE_SETS)
        return (DOCUMENTS_WITH_NODE_SETS if installed else DOCUMENTS).get(path)

    def _collection(self, question: Question, target: RequestTarget) -> Answer | Subscription:
        if question.method == "GET":
            listed = listed_of(target.kind, target.namespace, query=question.query)
            if question.query.get("watch") in ("true", "1"):
                return self._watch(question, listed)
            return self._list(question, listed)
        if question.method == "POST" and (target.namespace or not target.kind.namespaced):
            return self._post(question, target)
        if question.method == "DELETE" and (target.namespace or not target.kind.namespaced):
            return self._delete_all(question, target)
        raise no_such_method()

    def _get(self, question: Question, target: RequestTarget) -> Answer:
        stored = self.world.store.get(target.kind, f"{target.namespace}/{target.name}")
        self._check_not_ahead(question.query.get("resourceVersion", ""))
        if stored is None:
            raise not_found(target.kind, target.name)
        return self._show(question, target.kind, stored)

    def _check_not_ahead(self, version: str) -> None:
        number = number_of(version)
        if version and number is None:
            raise bad_request(f"invalid resource version: {not_a_number(version)}")
        if number is not None and number > self.world.store.version:
            raise too_large(number, self.world.store.version)

    def _show(self, question: Question, kind: Kind, stored: Stored, *, status: int = 200) -> Answer:
        if question.method == "GET" and wants_table(question.headers.get("accept", "")):
            return Answer(body=self._as_table(kind)(stored))
        return Answer(status=status, body=_HEADS[kind.plural] + stored.body[1:])

    def _as_table(self, kind: Kind) -> Render:
        """Return a function that renders objects as a Table; the first call adds the columns."""
        declared = False

        def render(stored: Stored) -> bytes:
            nonlocal declared
            rows = rows_of(kind, [stored.an_object], now=self.world.wall())
            metadata = {"resourceVersion": str(stored.version)}
            made = table(kind, metadata=metadata, rows=rows, declared=not declared)
            declared = True
            return _encode(made)

        return render

    def _list(self, question: Question, listed: Listed) -> Answer:
        page = page_of(self.world.store, listed)
        metadata, kind = list_metadata(page), listed.kind
        if wants_table(question.headers.get("accept", "")):
            objects = (stored.an_object for stored in page.rows)
            rows = rows_of(kind, objects, now=self.world.wall())
            return Answer(body=_encode(table(kind, metadata=metadata, rows=rows)))
        items = b",".join([stored.body for stored in page.rows])
        head = f'{{"kind":"{kind.name}List","apiVersion":"{kind.api_version}","metadata":'.encode()
        return Answer(body=b'%s%s,"items":[%s]}' % (head, _encode(metadata), items))

    def _watch(self, question: Question, listed: Listed) -> Subscription:
        check_watch(listed)
        version = number_of(listed.version) if listed.version else 0
        if version is None:
            raise RefusalError(500, "", not_a_number(listed.version))
        as_table = wants_table(question.headers.get("accept", ""))
        scope = Scope(
            kind=listed.kind,
            namespace=listed.namespace,
            selector=listed.selector,
            render=self._as_table(listed.kind) if as_table else whole(listed.kind),
        )
        query = question.query
        bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        timeout_s = float(number_of(query.get("timeoutSeconds", "")) or TIMEOUT_S)
        subscription = Subscription(
            self.world.store,
            scope,
            begun_s=self.world.now_s,
            timeout_s=timeout_s,
            bookmarks=bookmarks,
        )
        if listed.initial or version == 0:
            rows = first_of(self.world.store, listed)
            subscription.begin_with(rows, marked=bookmarks and _ends_initial(listed))
        else:
            subscription.begin_at(version)
        return subscription

    def _place(self, question: Question, target: RequestTarget) -> Place:
        return Place(
            kind=target.kind,
            namespace=target.namespace,
            name=target.name,
            subresource=target.subresource,
            manager=manager_of(question),
        )

    def _post(self, question: Question, target: RequestTarget) -> Answer:
        an_object = decoded(question, target.kind)
        place = self._place(question, target)
        stored = self.world.writes.create(place, an_object)
        return self._show(question, target.kind, stored, status=201)

    def _put(self, question: Question, target: RequestTarget) -> Answer:
        an_object = decoded(question, target.kind)
        stored, made = self.world.writes.replace(self._place(question, target), an_object)
        return self._show(question, target.kind, stored, status=201 if made else 200)

    def _patch(self, question: Question, target: RequestTarget) -> Answer:
        content_type = question.headers.get("content-type", "").partition(";")[0].strip()
        if content_type not in PATCH_TYPES:
            message = "415: Unsupported Media Type"
            raise RefusalError(415, "UnsupportedMediaType", message, details={})
        _check_patch_options(question.query, content_type)
        place = self._place(question, target)
        if content_type == APPLY:
            return self._apply(question, place)
        patch, shape = decoded_patch(question.body), SHAPES[target.kind.name]

        def patched(old: Object) -> Object:
            new = (
                merged(old, patch) if content_type == MERGE else strategic(old, patch, shape=shape)
            )
            return checked_kind(target.kind, new)

        return self._show(question, target.kind, self.world.writes.patch(place, patched))

    def _apply(self, question: Question, place: Place) -> Answer:
        config = decoded_patch(question.body, wanted=place.kind)
        force = question.query.get("force") in ("true", "1")
        stored, made = self.world.writes.apply(place, config, force=force)
        return self._show(question, place.kind, stored, status=201 if made else 200)

    def _delete(self, question: Question, target: RequestTarget) -> Answer:
        options = delete_options(question)
        stored, gone = self.world.writes.delete(self._place(question, target), options)
        if gone and target.kind is not PODS:
            metadata = stored.an_object["metadata"]
            return Answer(body=_encode(success(target.kind, metadata["name"], uid=metadata["uid"])))
        return self._show(question, target.kind, stored)

    def _delete_all(self, question: Question, target: RequestTarget) -> Answer:
        listed = listed_of(target.kind, target.namespace, query=question.query)
        answer = self._list(Question(path=question.path), listed)
        options = delete_options(question)
        for stored in page_of(self.world.store, listed).rows:
            metadata = stored.an_object["metadata"]
            place = Place(
                kind=target.kind, namespace=metadata.get("namespace", ""), name=metadata["name"]
            )
            self.world.writes.delete(place, options)
        return answer

    def _bind(self, question: Question, target: RequestTarget) -> Answer:
        self.world.writes.bind(self._place(question, target), decoded_patch(question.body))
        return Answer(status=201, body=_encode(_BOUND))

    def _review(self, question: Question) -> Answer:
        review: dict[str, Any] = decoded_patch(question.body)
        asked = review.get("spec", {}).get("resourceAttributes", {})
        resource = "/".join(
            part for part in (asked.get("resource", ""), asked.get("subresource", "")) if part
        )
        allowed = (asked.get("verb", ""), resource) not in self.world.denied
        place = Place(kind=REVIEWS, manager=manager_of(question))
        spec = review.get("spec", {})
        body = {
            "kind": REVIEWS.name,
            "apiVersion": REVIEWS.api_version,
            "metadata": {"managedFields": self.world.writes.owners_of({"spec": spec}, place)},
            "spec": spec,
            "status": {"allowed": allowed},
        }
        return Answer(status=201, body=_encode(body))


def _ends_initial(listed: Listed) -> bool:
    """Whether a bookmark marks the end of the initial events; also from version 0 (measured)."""
    return bool(listed.initial) or listed.version == "0"


def _check_patch_options(query: Mapping[str, str], content_type: str) -> None:
    causes: list[StatusCause] = []
    if content_type == APPLY:
        if not query.get("fieldManager"):
            causes.append(required("fieldManager", "is required for apply patch"))
    elif "force" in query:
        causes.append(forbidden("force", "may not be specified for non-apply patch"))
    if causes:
        raise invalid_options("PatchOptions", causes)
