"""The command line program `minigpt`: COMMANDS in app.py names the module of each."""
