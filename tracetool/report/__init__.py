"""Results to text, tables, pages and pictures."""
