"""Plain tables of kernels, as a spreadsheet or a script writes them."""
