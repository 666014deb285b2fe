"""The lake as Spark and PyIceberg open it: session, catalog, settings, jars."""
