"""The commands of the program `minigpt`; each is a few lines over a public function."""
