"""How each result looks on a terminal."""
