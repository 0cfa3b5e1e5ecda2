"""The measurements of `scripts/benchmark.py`.

cases       what is measured, and with what it is compared
worker      runs one measurement in a process
measuring   memory, the speed of steady steps, the sizes of the models, an artificial text
ours        minigpt: training, start, sampling, export, engine, first word
tutorial    the Keras tutorial's program
torch_gpt2  GPT-2 of transformers in PyTorch
nanogpt     nanoGPT's model and settings for a CPU
llama_cpp   llama.cpp, through its Python binding
quality     the time until held-out text is predicted as well as by a peer
serving     `minigpt serve` and llama.cpp's server
"""
