"""What the two source articles claim, judged by the catalogue and the sizing engine."""
