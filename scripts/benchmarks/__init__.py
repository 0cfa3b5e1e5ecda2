"""The measurements of `scripts/benchmark.py`.

cases       all cases: the measurements, the unit, the target
rounds      measures A B A B, each in a separate process (`worker`)
report      turns medians into ratios, a table and JSON
limits      the roofline of the machine: matrix products and copies
our_*       minigpt
tutorial, torch_gpt2, keras_hub_gpt, nanogpt, tokenizers_bpe    the programs it is compared with
"""
