"""Simulated worlds around sessions: they carry out what is decided and report what happens."""
