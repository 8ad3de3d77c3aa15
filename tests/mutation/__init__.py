"""Mutation tests of the rules, the policy and the outbox: `python -m tests.mutation`."""
