"""Copies standard input to standard error without the log lines of TensorFlow and similar libraries.

`environment.hide_tensorflow_log` runs this file as a program, without importing minigpt.
"""

import re
import sys

# "I0000 00:00:1795223707.597663 ...", logged before TensorFlow reads its log level and for every missing
# GPU; sentencepiece's message about a normalizer that is deliberately empty; LiteRT's and oneDNN's about
# how they compute. Errors other than these stay.
LOG_LINE = re.compile(
    rb"[IW]\d{4} \d\d:\d\d:"
    rb"|\d{4}-\d\d-\d\d \d\d:\d\d:[\d.]+: [IW] "
    rb"|(?:E\d{4}|\d{4}-\d\d-\d\d) .*"
    rb"(?:[cC][uU][dD][aA]|cu(?:FFT|DNN|BLAS|Init)|oneDNN supports|attribute \w+ which is not in the op)"
    rb"|INFO: Created TensorFlow Lite"
    rb"|WARNING: All log messages before"
    rb"|normalizer\.cc\(\d+\) LOG\(INFO\)"
)

if __name__ == "__main__":
    for line in sys.stdin.buffer:
        if not LOG_LINE.match(line):
            sys.stderr.buffer.write(line)
            sys.stderr.flush()
