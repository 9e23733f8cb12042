"""Groups: manifests, histories, and what a node made anew costs."""
