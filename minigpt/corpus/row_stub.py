"""STUB until the reader of rows is merged."""
import glob, hashlib, json
from pathlib import Path
from minigpt.corpus.documents import Piece
from minigpt.errors import UserError


class RowFiles:
    def __init__(self, paths): self._paths = [p for path in paths for p in sorted(glob.glob(path))]
    def fingerprint(self):
        h = hashlib.sha256()
        for p in self._paths: h.update(Path(p).read_bytes())
        return h.hexdigest()
    def pieces(self, document):
        problems = []
        for p in self._paths:
            for n, line in enumerate(open(p), 1):
                try: yield Piece(document(json.loads(line)), True)
                except UserError as e: problems.append(f"{p}: row {n}: {e}")
        if problems: raise UserError(*problems)
