"""The stages of an hour, one module each: land, decode, assemble, fold, validate, publish."""
