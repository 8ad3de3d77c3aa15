"""Errors of the test bed."""


class BedError(Exception):
    """A server of the test bed did not start, answer or stop; the message says which and why."""


class CannotRunError(BedError):
    """This machine lacks something; the message says what, and how to get it."""
