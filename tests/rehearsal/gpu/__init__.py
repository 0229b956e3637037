"""Stand-ins for a GPU machine: NVIDIA's packages as the vendor names them, with our own contents. Not in the wheel."""
