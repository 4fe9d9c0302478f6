"""Pictures as inline SVG: numbers in, text out; every text in them is escaped."""
