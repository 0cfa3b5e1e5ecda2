"""The training script: `minigpt train` without the installed command.

python scripts/train.py --config default
"""

import sys

from minigpt.__main__ import main

if __name__ == "__main__":
    sys.argv[1:1] = ["train"]
    main()
