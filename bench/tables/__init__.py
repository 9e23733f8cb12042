"""From a vault to tables: both engines, and what growth costs."""
