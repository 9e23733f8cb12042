"""Tables of groups: manifests, secrets and votes; invites, joins and pairings; the person's own group."""
