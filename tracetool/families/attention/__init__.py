"""Attention: prefill and decode."""
