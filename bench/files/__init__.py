"""Files between agents, and mailboxes."""
