"""Everything that imports PySpark: the data sources, the session, and the engine that drives Structured Streaming."""
