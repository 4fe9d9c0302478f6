"""Where a GPU job's joules went, and what they would be at another clock."""
