"""Changes rules, policy and outbox in every small way and asks the tests: `make mutation`."""
