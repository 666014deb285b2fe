"""The stages of an hour, one module each, in the order land, decode, assemble, compact, validate, publish."""
