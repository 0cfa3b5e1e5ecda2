"""The command line program `minigpt`: one module per command."""
