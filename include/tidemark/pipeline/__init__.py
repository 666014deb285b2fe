"""The stages of an hour, one module each: land, decode, assemble, compact, validate, publish."""
