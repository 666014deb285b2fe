"""Columns and their values: types, encodings of text, JSON documents, what a stream says of its tables."""
