"""Continues a prompt with an exported model. Needs tensorflow and tensorflow-text, not minigpt.

python use_export.py runs/book/saved_model "Once upon a time"
"""

import sys

import tensorflow as tf
import tensorflow_text  # noqa: F401  # Registers the operations of the tokenizer.


def main() -> None:
    folder, prompt = sys.argv[1:]
    generate = tf.saved_model.load(folder).signatures["serving_default"]
    output = generate(
        prompt=tf.constant([prompt]),
        max_new_tokens=tf.constant(60),
        temperature=tf.constant(0.8),
        top_k=tf.constant(10),
        top_p=tf.constant(1.0),
        seed=tf.constant(1),
    )
    print(prompt + output["text"].numpy()[0].decode())


if __name__ == "__main__":
    main()
