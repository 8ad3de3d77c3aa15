"""Logs, metrics and alarms: what operators read. Nothing here decides anything."""
