"""Laws: how the time of a family follows from its work and how it lies on the chip."""
