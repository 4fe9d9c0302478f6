"""Mixture-of-experts layers: grouped products."""
