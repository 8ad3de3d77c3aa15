"""The pure core: facts in, wanted writes out.

No clock, no I/O, no logging and no randomness may enter here. import-linter checks that.
"""
