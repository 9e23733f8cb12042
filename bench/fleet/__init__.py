"""Orders to many devices, and the fleet's page."""
