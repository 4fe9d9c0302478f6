"""Fits of coefficients, priors, validation, transfer."""
