"""Groups: manifests, histories, and the cost of rebuilding a node."""
