"""Trains a small model on a text file, and writes the metrics of each epoch to metrics.csv.

python train_in_python.py book.txt runs/book
python train_in_python.py book.txt runs/book training.epochs=3
"""

import sys

import keras

import minigpt


def main() -> None:
    text, folder, *overrides = sys.argv[1:]
    # The sizes of model and training depend on the length of the text.
    config = minigpt.config_for_text([text], overrides)
    run = minigpt.train(config, folder, callbacks=[keras.callbacks.CSVLogger("metrics.csv")])

    model = minigpt.load(run)
    assert isinstance(model, minigpt.TextModel)
    for continuation in model.generate(["The ", "Once "], max_new_tokens=60, seed=1):
        print(repr(continuation))
    print(minigpt.evaluate_run(run))


if __name__ == "__main__":
    main()
