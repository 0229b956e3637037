"""Programs that travel to a host as text and run there under its own Python (3.6 or newer)."""
