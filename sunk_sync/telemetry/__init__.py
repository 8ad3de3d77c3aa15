"""Logs, metrics and alarms for operators. Nothing here decides anything."""
