"""Programs that run on the machines, by a Python found there; nothing of the product is imported in them."""
