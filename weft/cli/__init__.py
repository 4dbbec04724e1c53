"""The command line: parsing and printing only. Verbs load the rest of weft when they run."""

from weft.cli.app import main as main
