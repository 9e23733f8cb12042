"""Messages from an outbox to their recipient: throughput, recovery, hostile senders, and what the outbox costs."""
