"""A model description to the operators it will run."""
