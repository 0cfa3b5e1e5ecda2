"""Certificates of exported models: what was compared with the run, and the result.

`certify` compares, `readers/` opens each format as its users do.
"""
