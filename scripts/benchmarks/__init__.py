"""The measurements of `scripts/benchmark.py`.

quality_cases    time to quality: the texts, the peers, the targets
cases            all other cases: the measurements, the unit, the target
quality_running  trains the peers, then minigpt until it reaches their scores
rounds           measures A B A B, each in a separate process (`worker`)
held_out         the score on held-out text, the same function for both sides
quality          evaluation during training, and the time at which a score is reached
quality_report, report    turn measured values into ratios, tables and JSON
limits           the roofline of the machine: matrix products and copies
our_*            minigpt
tutorial, torch_gpt2, torch_qwen3, keras_hub_gpt, gpt2_quality, nanogpt, tokenizers_bpe, llama_cpp
                 the programs it is compared with
first_word       starts `minigpt sample` and the scripts *_sample, and waits for their first word
"""
