"""The ONNX graph from text to text: tokenizer, decoding loop, detokenizer.

ONNX Runtime's operators on strings only split texts into characters, hash them and concatenate them. All
else is done with whole numbers, in TensorFlow functions that are converted: `strings`, `encoders`,
`merging`, `generating` and `detokenizing`. `writing` puts the parts together.
"""
