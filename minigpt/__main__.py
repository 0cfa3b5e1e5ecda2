"""The program `minigpt`; `python -m minigpt` is the same."""

import atexit
import contextlib
import gc
import io
import os
import sys

from minigpt.interrupts import INTERRUPTED, remember_interrupts, was_answered, was_requested


def open_closed_streams() -> None:
    """Opens the null device for each standard stream that is closed.

    Otherwise the next file that the program opens gets the stream's descriptor.
    """
    for name, descriptor, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free descriptor, which is this one.
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(descriptor, mode))  # noqa: SIM115


def main() -> None:
    """Runs a command; Ctrl-C ends it at any moment with one line and status 130."""
    try:
        remember_interrupts()
        open_closed_streams()
        # TensorFlow makes a million objects that stay. Looking for garbage among them takes a fifth of its
        # import, and more than a second at the end of the process.
        gc.set_threshold(50_000, 20, 10)
        atexit.register(gc.freeze)
        # Keras ignores KERAS_BACKEND; it neither finds nor writes a keras.json in what is no directory.
        os.environ |= {"KERAS_BACKEND": "tensorflow", "KERAS_HOME": os.devnull}
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # A character that a terminal or a file cannot encode should not stop training.
                stream.reconfigure(errors="replace")
        from minigpt.cli.program import run_command

        run_command()
    except (KeyboardInterrupt, Exception) as error:
        # A library that is interrupted while it is imported may raise an ImportError.
        if not (isinstance(error, KeyboardInterrupt) or was_requested()):
            raise
        if not was_answered():
            print("minigpt: interrupted; no file was written", file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        # Python's own shutdown would run code that the interrupt left in an unknown state.
        os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
