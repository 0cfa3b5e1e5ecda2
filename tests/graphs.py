"""The graph of a tokenizer, built once: every test of it would compile it anew."""

import functools

from minigpt.tokenizers.graph import graph_of as build_graph

graph_of = functools.cache(build_graph)
