"""From a path and what is said of it to a source: `open_source`, and a room for each kind of source."""
