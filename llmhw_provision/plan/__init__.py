"""From estimate, site and machines to a complete, frozen plan."""
