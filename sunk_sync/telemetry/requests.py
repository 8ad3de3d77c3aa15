"""Counts the requests to both sides: results, durations, bytes."""

from sunk_sync.telemetry.exchange import Exchange
from sunk_sync.telemetry.metrics import Metrics


class RequestMetrics:
    def __init__(self, metrics: Metrics) -> None:
        self._requests = metrics.counter("rest_client_requests_total")
        self._duration_s = metrics.histogram("rest_client_request_duration_seconds")
        self._received = metrics.counter("sunk_sync_received_bytes_total")
        self._spent_s = metrics.counter("sunk_sync_request_seconds_total")

    def count(self, exchange: Exchange) -> None:
        host = exchange.authority
        self._requests.labels(exchange.status, host, exchange.method).inc()
        self._duration_s.labels(host, exchange.method).observe(exchange.seconds)
        self._received.labels(host, exchange.path).inc(exchange.received_bytes)
        self._spent_s.labels(host, exchange.path).inc(exchange.seconds)
