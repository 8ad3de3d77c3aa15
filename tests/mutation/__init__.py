"""Mutation tests of the rules, the policy and the outbox: `make mutation`."""
