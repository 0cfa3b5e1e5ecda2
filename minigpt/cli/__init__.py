"""The command line program `minigpt`: COMMANDS in program.py names the module of each."""
