"""Readers of exported models, one file for each way of opening them."""
