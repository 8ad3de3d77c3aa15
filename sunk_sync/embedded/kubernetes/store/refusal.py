"""Error responses of the API server: Status objects with the texts of the real server."""

from typing import Any

from sunk_sync.embedded.kubernetes.store.kinds import Kind

Json = dict[str, Any]


class RefusalError(Exception):
    """A refused request. `status` is the HTTP status, `body` the Status object."""

    def __init__(
        self, status: int, reason: str, message: str, *, details: Json | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
        }
        if reason:
            self.body["reason"] = reason
        if details is not None:
            self.body["details"] = details
        self.body["code"] = status


def success(kind: Kind, name: str, *, uid: str) -> Json:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": name, **_group(kind), "kind": kind.plural, "uid": uid},
    }


def _group(kind: Kind) -> Json:
    return {"group": kind.group} if kind.group else {}


def _named(kind: Kind, name: str) -> Json:
    return {"name": name, **_group(kind), "kind": kind.plural}


def not_found(kind: Kind, name: str) -> RefusalError:
    message = f'{kind.qualified} "{name}" not found'
    return RefusalError(404, "NotFound", message, details=_named(kind, name))


def already_exists(kind: Kind, name: str, *, ends: bool = False) -> RefusalError:
    """`ends`: the object that has the name is being deleted."""
    message = f'{kind.qualified} "{name}" already exists'
    message = f"object is being deleted: {message}" if ends else message
    return RefusalError(409, "AlreadyExists", message, details=_named(kind, name))


def conflict(kind: Kind, name: str, *, why: str) -> RefusalError:
    message = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}'
    return RefusalError(409, "Conflict", message, details=_named(kind, name))


def modified(kind: Kind, name: str) -> RefusalError:
    why = "the object has been modified; please apply your changes to the latest version"
    return conflict(kind, name, why=f"{why} and try again")


def precondition(kind: Kind, name: str, *, why: str) -> RefusalError:
    message = f'Operation cannot be fulfilled on {kind.name} "{name}": {why}'
    details = {"name": name, **_group(kind), "kind": kind.name}
    return RefusalError(409, "Conflict", message, details=details)


class StatusCause(tuple[str, str, str]):
    """Why a field is invalid: the field, the reason, the text."""

    __slots__ = ()

    @property
    def text(self) -> str:
        return f"{self[0]}: {self[2]}"


def bad_value(field: str, value: str, *, why: str) -> StatusCause:
    return StatusCause((field, "FieldValueInvalid", f'Invalid value: "{value}": {why}'))


def required(field: str, why: str = "") -> StatusCause:
    return StatusCause(
        (field, "FieldValueRequired", f"Required value: {why}" if why else _REQUIRED)
    )


_REQUIRED = "Required value"


def forbidden(field: str, why: str) -> StatusCause:
    return StatusCause((field, "FieldValueForbidden", f"Forbidden: {why}"))


def invalid(kind: Kind, name: str, *, causes: list[StatusCause]) -> RefusalError:
    details = {"name": name, **_group(kind), "kind": kind.name}
    head = f"{kind.name}.{kind.group}" if kind.group else kind.name
    return _invalid(f'{head} "{name}"', causes, details=details)


def without_version(kind: Kind, name: str) -> RefusalError:
    why = "Invalid value: 0: must be specified for an update"
    cause = StatusCause(("metadata.resourceVersion", "FieldValueInvalid", why))
    return _invalid(f'{kind.qualified} "{name}"', [cause], details=_named(kind, name))


def invalid_options(kind: str, causes: list[StatusCause]) -> RefusalError:
    """The query (ListOptions, PatchOptions) is invalid."""
    details = {"group": "meta.k8s.io", "kind": kind}
    return _invalid(f'{kind}.meta.k8s.io ""', causes, details=details)


def _invalid(head: str, causes: list[StatusCause], *, details: Json) -> RefusalError:
    texts = list(dict.fromkeys(cause.text for cause in causes))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    listed = [{"reason": why, "message": message, "field": field} for field, why, message in causes]
    details = {key: value for key, value in details.items() if value}
    message = f"{head} is invalid: {text}"
    return RefusalError(422, "Invalid", message, details={**details, "causes": listed})


def bad_request(message: str) -> RefusalError:
    return RefusalError(400, "BadRequest", message)


def no_such_path() -> RefusalError:
    message = "the server could not find the requested resource"
    return RefusalError(404, "NotFound", message, details={})


def no_such_method() -> RefusalError:
    message = "the server does not allow this method on the requested resource"
    return RefusalError(405, "MethodNotAllowed", message, details={})


def expired(version: int, oldest: int) -> RefusalError:
    return RefusalError(410, "Expired", f"too old resource version: {version} ({oldest})")


def too_large(version: int, now: int) -> RefusalError:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {version}, current: {now}"
    details = {"causes": [cause], "retryAfterSeconds": 1}
    return RefusalError(504, "Timeout", message, details=details)
