"""What are the coefficients? Fits, priors, validation, transfer."""
