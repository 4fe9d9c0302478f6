"""How work lies on the chip: tiles, waves, occupancy, reuse, split-K. Arrays in, arrays out."""
