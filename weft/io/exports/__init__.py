"""Plans and runs in the words of other systems: one module per format, all listed in ``table``."""
