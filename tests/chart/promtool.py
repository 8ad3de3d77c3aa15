"""Tests for promtool: series in, firing alerts out."""

from collections.abc import Sequence
from typing import Any


def firing(series: Sequence[tuple[str, str]], alerts: Sequence[str]) -> dict[str, Any]:
    """Return a test of promtool: after 80 minutes exactly these alerts fire."""
    expected = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in alerts]
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "80m",
                "exp_samples": expected,
            }
        ],
    }
