"""The row engine: rows in, a source out. Roles, classes, objects and the account are decided here, for all readers."""
