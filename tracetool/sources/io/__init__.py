"""Bytes on disk: text, CSV, protocol buffers, SQLite, archives."""
