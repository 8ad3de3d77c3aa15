"""Sends spans to a collector with OpenTelemetry's SDK, from a thread of the SDK.

Only this module imports the SDK, and only --traces-endpoint imports this module. Headers,
certificates, compression, time-outs and batches are those of the standard OTEL_… variables.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from sunk_sync import __version__
from sunk_sync.telemetry.logs import text_of
from sunk_sync.telemetry.metrics import Figures
from sunk_sync.telemetry.spans import Span, root_id, trace_id
from sunk_sync.telemetry.telemetry import QUIET_S

QUEUE_MAX = 8192
"""Spans that wait for the collector, 10 to 20 MB; further ones are dropped."""
WHY_MAX = 300
PATH = "/v1/traces"
_LIBRARY = "opentelemetry"

Log = structlog.typing.FilteringBoundLogger


class Outlet:
    """Takes spans and sends them in batches. `send` never waits.

    ValueError: a variable of the SDK has a wrong value.
    """

    def __init__(
        self,
        endpoint: str,
        about: Mapping[str, str],
        *,
        log: Log,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._library_log = _LibraryLog()
        self._exporter = _Exporter(
            OTLPSpanExporter(endpoint=endpoint_of(endpoint)),
            _Journal(log, self._library_log, endpoint=endpoint, clock=clock),
        )
        self._processor = BatchSpanProcessor(self._exporter, max_queue_size=QUEUE_MAX)
        chosen = OTELResourceDetector().detect().attributes
        self._resource = Resource.create({**about, **chosen})
        self._scope = InstrumentationScope("sunk-sync", __version__)
        self._taken = self._refused = 0
        self._library_log.attach()

    @property
    def dropped(self) -> int:
        """Spans that no collector took: the queue was full, or their batch failed."""
        return self._refused + self._exporter.failed

    @property
    def waiting(self) -> int:
        return self._taken - self._exporter.done

    def tell(self, figures: Figures) -> None:
        figures["sunk_sync_trace_spans_dropped_total"] = self.dropped

    def send(self, span: Span) -> None:
        if self.waiting >= QUEUE_MAX:
            self._refused += 1
            return
        self._taken += 1
        self._processor.on_end(self._readable(span))

    def close(self, ended: Callable[[], object]) -> None:
        """Send what waits, from a thread that calls `ended`; `give_up` ends it early."""
        threading.Thread(target=self._close, args=(ended,), name="traces", daemon=True).start()

    def give_up(self) -> None:
        """End all attempts; what still waits is lost."""
        self._exporter.shutdown()
        self._library_log.detach()

    def _close(self, ended: Callable[[], object]) -> None:
        self._processor.shutdown()  # type: ignore[no-untyped-call]
        ended()

    def _readable(self, span: Span) -> ReadableSpan:
        context = _context(trace_id(span.uid), span.span_id)
        failed = Status(StatusCode.ERROR, span.failure) if span.failure else Status()
        return ReadableSpan(
            span.name,
            context,
            parent=None if span.root else _context(context.trace_id, root_id(span.uid)),
            resource=self._resource,
            attributes=span.attributes,
            events=[Event(one.name, one.attributes, one.at_ns) for one in span.events],
            kind=SpanKind.CLIENT if span.call else SpanKind.INTERNAL,
            status=failed,
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


def endpoint_of(address: str) -> str:
    """Return the address for traces: a collector's own address gets the standard path."""
    return address if address.endswith(PATH) else address + PATH


def _context(trace: int, span: int) -> SpanContext:
    return SpanContext(trace, span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


class _Exporter(SpanExporter):
    """Counts what each batch came to."""

    def __init__(self, exporter: SpanExporter, journal: "_Journal") -> None:
        self._exporter = exporter
        self._journal = journal
        self._lock = threading.Lock()
        self._ended = False
        self.done = self.failed = 0
        """Spans whose batch ended, and those of them that the collector did not take."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send one batch, in the thread of the SDK."""
        self._journal.begin()
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001 - a defect of the SDK must not stop its thread
            self._journal.note(error)
            result = SpanExportResult.FAILURE
        self.done += len(spans)
        if result is SpanExportResult.SUCCESS:
            self._journal.taken()
        else:
            self.failed += len(spans)
            self._journal.lost(self.failed)
        return result

    def shutdown(self) -> None:
        """Stop waiting for the next try; the SDK and the service both call it."""
        with self._lock:
            ended, self._ended = self._ended, True
        if not ended:
            self._exporter.shutdown()


class _Journal:
    """Logs that the collector fails: once a minute, and once when it takes spans again."""

    def __init__(
        self, log: Log, library: "_LibraryLog", *, endpoint: str, clock: Callable[[], float]
    ) -> None:
        self._log = log
        self._library = library
        self._endpoint = endpoint
        self._clock = clock
        self._told_s: float | None = None

    def begin(self) -> None:
        self._library.first = ""

    def note(self, error: Exception) -> None:
        self._library.first = f"{type(error).__name__}: {error}"[:WHY_MAX]

    def lost(self, dropped: int) -> None:
        now = self._clock()
        if self._told_s is None or now - self._told_s >= QUIET_S:
            self._told_s = now
            why = self._library.first or "no answer"
            self._log.warning(
                "traces are lost", endpoint=self._endpoint, why=why, spans_dropped=dropped
            )

    def taken(self) -> None:
        if self._told_s is not None:
            self._told_s = None
            self._log.info("the collector takes traces again", endpoint=self._endpoint)


class _LibraryLog(logging.Handler):
    """Keeps the first warning about a batch, which names the cause; later ones say that it failed.

    So no line is logged for each try of the SDK.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.first = ""
        self._logger = logging.getLogger(_LIBRARY)

    def attach(self) -> None:
        self._logger.addHandler(self)
        self._logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        self.first = self.first or text_of(record)[:WHY_MAX]

    def detach(self) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = True
