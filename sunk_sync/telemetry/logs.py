"""Log lines: JSON for machines, plain for a terminal; a thread writes them, one write per line.

The loop never waits for the reader of the log. Lines wait in a bounded queue; if it is full,
sunk-sync drops and counts them.
"""

import contextlib
import io
import logging
import queue
import threading
from collections.abc import MutableMapping
from typing import Any, Literal, TextIO

import msgspec
import structlog

TEXT_LENGTH_MAX = 1000
TRACE_LENGTH_MAX = 8000
LINES_WAITING_MAX = 20_000
CLOSE_S = 2.0
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_encoder = msgspec.json.Encoder(enc_hook=repr)

Event = MutableMapping[str, Any]


class LineWriter:
    """A logger for structlog: takes finished lines, never blocks, never raises."""

    def __init__(self, file: TextIO) -> None:
        self.dropped = 0
        self._file = file
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    def msg(self, message: str) -> None:
        if self._lines.qsize() >= LINES_WAITING_MAX:
            self.dropped += 1
        else:
            self._lines.put(message)

    debug = info = warning = error = critical = exception = msg

    def close(self) -> None:
        """Write the waiting lines, for at most CLOSE_S."""
        self._lines.put(None)
        self._thread.join(CLOSE_S)

    def _write_all(self) -> None:
        while (line := self._lines.get()) is not None:
            with contextlib.suppress(OSError, ValueError):
                self._file.write(line + "\n")
                self._file.flush()


class Logs:
    def __init__(self, level: str, form: Literal["auto", "json", "console"], file: TextIO) -> None:
        if isinstance(file, io.TextIOWrapper):
            file.reconfigure(errors="backslashreplace")
        self.writer = LineWriter(file)
        as_json = form == "json" or (form == "auto" and not file.isatty())
        self.log: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
            self.writer,
            processors=[*_SHAPING, _as_json if as_json else _for_a_terminal(file.isatty())],
            wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        )
        self._libraries = _Libraries(self.log)
        logging.getLogger().addHandler(self._libraries)

    def close(self) -> None:
        """Write the last lines and detach from the logs of libraries."""
        logging.getLogger().removeHandler(self._libraries)
        self.writer.close()


class _Libraries(logging.Handler):
    """Logs the warnings of libraries. Lower levels may contain secrets."""

    def __init__(self, log: structlog.typing.FilteringBoundLogger) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log one record as one line."""
        text = text_of(record)
        level = min(record.levelno, logging.ERROR)
        self._log.log(level, text, logger=record.name, exc_info=record.exc_info)


def text_of(record: logging.LogRecord) -> str:
    """Return the text of a library's record; if it cannot be formatted, its raw text."""
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        return str(record.msg)


def clean(text: str, length_max: int = TEXT_LENGTH_MAX) -> str:
    """Return the text in one line: bounded, without control characters."""
    if len(text) > length_max:
        text = text[:length_max] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " for c in text)


def _clean_all(_logger: object, _method: str, event: Event) -> Event:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = value[-TRACE_LENGTH_MAX:] if key == "exception" else clean(value)
    return event


def _as_json(_logger: object, _method: str, event: Event) -> str:
    head = {key: event.pop(key) for key in ("timestamp", "level", "event")}
    return _encoder.encode(head | dict(event)).decode("utf-8", "replace")


def _for_a_terminal(colours: bool) -> structlog.dev.ConsoleRenderer:
    return structlog.dev.ConsoleRenderer(
        colors=colours, sort_keys=False, exception_formatter=structlog.dev.plain_traceback
    )


_SHAPING: list[structlog.typing.Processor] = [
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
    _clean_all,
]
