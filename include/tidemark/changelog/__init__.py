"""The one reading of the change log: which entries are of a table, where each stands, which columns it has."""
