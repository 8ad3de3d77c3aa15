"""Objects that a `with` statement closes."""

from typing import Self


class Closing:
    """A context manager that calls `close` at its end."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
