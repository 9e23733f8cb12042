"""Makes `format("covey")` known to every Spark session of an environment that this is installed in.

PySpark imports the modules called `pyspark_…` when a session first looks for a data source, and takes the class
`DefaultSource` of each. There is nothing else here: `covey_ingest.spark.source` is the source, and says its options.
"""

from covey_ingest.spark.source import CoveySource as DefaultSource

__all__ = ["DefaultSource"]
