"""A model's time, power and energy from its configuration: no trace, nothing measured of the model itself."""
