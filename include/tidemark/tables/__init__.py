"""One published table: its history of columns, its shape, its storage, and what is published of it."""
