"""TensorFlow's start-up noise, kept from the user."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

# "I0000 00:00:1795223707.597663 ..." before TensorFlow has read its settings, and for every GPU that is
# not there; sentencepiece's word on a normalizer that is empty on purpose.
_LOG_LINE = re.compile(
    rb"[IWE]\d{4} \d\d:\d\d:"
    rb"|\d{4}-\d\d-\d\d \d\d:\d\d:[\d.]+: [IWE] "
    rb"|WARNING: All log messages before"
    rb"|normalizer\.cc\(\d+\) LOG\(INFO\)"
)


@contextmanager
def hide_tensorflow_log() -> Iterator[None]:
    """Drops TensorFlow's log lines from standard error; whatever else is written there comes later.

    Works on the file descriptor: the lines come from C++, not through `sys.stderr`.
    """
    sys.stderr.flush()
    try:
        stderr = os.dup(2)
    except OSError:  # Standard error is closed: nothing to hide.
        yield
        return
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            kept.seek(0)
            for line in kept:
                if not _LOG_LINE.match(line):
                    os.write(2, line)
