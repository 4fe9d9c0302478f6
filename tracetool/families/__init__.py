"""What each kind of kernel must do: shapes to counts of work."""
