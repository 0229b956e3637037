"""The files that start the work, from the plan and its layout."""
