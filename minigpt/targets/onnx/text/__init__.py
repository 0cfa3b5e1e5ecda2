"""The ONNX graph from text to text: tokenizer, decoding loop, detokenizer.

ONNX Runtime's operators on strings only split texts into characters, hash them and concatenate them. The
rest is computed with whole numbers, in TensorFlow functions that are converted: `strings`, `encoding`,
`generating` and `detokenizing`. `writing` joins the parts.
"""
