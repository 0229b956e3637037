"""What is known of hardware and models, each record with source, date and confidence."""
