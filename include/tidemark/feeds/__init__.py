"""Feed files: the models they are read into, their rules, and how mistakes are reported (file, line, path, fix)."""
