"""Client of slurmrestd. Only this package sends requests to it.

`api` sends requests, `decode` turns answers into facts, `read` polls, `write` performs actions.
"""
