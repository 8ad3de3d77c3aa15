"""Client of slurmrestd.

`api` sends requests, `decode` turns answers into facts, `read` polls, `write` carries out actions.
Only this package sends requests to slurmrestd.
"""
