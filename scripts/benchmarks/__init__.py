"""What `scripts/benchmark.py` measures: ours beside what people use today, in one run on one machine.

cases       every case: who takes part, the unit, the mark
rounds      A B A B, each measurement in its own process (`worker`)
report      medians to ratios, table and JSON
limits      what the machine could do: matrix products and copies
our_*       the product's own path
tutorial, torch_gpt2, keras_hub_gpt, nanogpt, tokenizers_bpe    the peers, written for this benchmark
"""
