"""Generation: text in, text out. Sampling, the decoding loop, beam search, text models."""
