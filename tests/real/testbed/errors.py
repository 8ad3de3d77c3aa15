"""What can go wrong with the test bed."""


class BedError(Exception):
    """A server of the test bed did not start, answer or stop as it must; says which and why."""


class CannotRunError(BedError):
    """This machine lacks something; the message says what and how to get it."""
