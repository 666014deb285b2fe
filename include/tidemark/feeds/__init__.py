"""Feeds: one YAML file each: the models, what a file must hold, and every mistake told with its place."""
