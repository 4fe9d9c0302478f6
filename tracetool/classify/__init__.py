"""Who is this kernel? Names and launches to families, attributes and shapes."""
