"""The command line program `minigpt`: one module a command."""
