"""The asyncio engine: the loop that decides, the outbox and the work queues that write."""
