"""Learns chess from games of random moves, and counts how many of its own moves are legal.

    pip install chess
    python chess_games.py folder
    python chess_games.py folder --games 20000 --minutes 10

A game is a sequence of moves such as "e2e4", and a move is one token: no text is involved. The games are
written as token ids (games.npy) with the name of each id (moves.txt). `minigpt train` and `minigpt sample`
do the rest.
"""

import argparse
import json
import random
import subprocess
import sys
from itertools import product
from pathlib import Path

import chess
import numpy as np

END = "<end>"


def all_moves() -> list[str]:
    """Returns every move that a piece can make on some board, in UCI's notation."""
    moves = []
    for start, stop in product(chess.SQUARES, repeat=2):
        files = abs(chess.square_file(start) - chess.square_file(stop))
        ranks = abs(chess.square_rank(start) - chess.square_rank(stop))
        is_line = files == 0 or ranks == 0 or files == ranks
        if start == stop or not (is_line or {files, ranks} == {1, 2}):
            continue
        moves.append(chess.Move(start, stop).uci())
        last_ranks = {chess.square_rank(start), chess.square_rank(stop)}
        if files <= 1 and last_ranks in ({6, 7}, {0, 1}) and chess.square_rank(stop) in (0, 7):
            moves += [chess.Move(start, stop, piece).uci() for piece in (2, 3, 4, 5)]
    return moves


def random_game(generator: random.Random, length: int) -> list[str]:
    """Plays random legal moves from the first position, at most `length` of them."""
    board = chess.Board()
    moves: list[str] = []
    while len(moves) < length and (legal := list(board.legal_moves)):
        move = generator.choice(legal)
        moves.append(move.uci())
        board.push(move)
    return moves


def legal_moves(opening: list[str], moves: list[str]) -> tuple[int, int]:
    """Returns how many moves after an opening are legal, and how many were tried: up to an illegal one."""
    board = chess.Board()
    for move in opening:
        board.push_uci(move)
    for tried, move in enumerate(moves):
        if chess.Move.from_uci(move) not in board.legal_moves:
            return tried, tried + 1
        board.push_uci(move)
    return len(moves), len(moves)


def minigpt(*arguments: str) -> str:
    command = [sys.executable, "-m", "minigpt", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description="Learns chess from games of random moves.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--games", type=int, default=20_000)
    parser.add_argument("--length", type=int, default=40, help="moves in a game")
    parser.add_argument("--minutes", type=float, default=5.0, help="time for training")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--set", action="append", default=[], help="as for minigpt train")
    options = parser.parse_args()

    generator = random.Random(0)
    names = [*all_moves(), END]
    ids = {name: i for i, name in enumerate(names)}
    games = [random_game(generator, options.length) for _ in range(options.games)]
    options.folder.mkdir(parents=True, exist_ok=True)
    tokens = [ids[name] for game in games for name in (*game, END)]
    np.save(options.folder / "games.npy", np.array(tokens, np.uint16))
    (options.folder / "moves.txt").write_text("\n".join(names) + "\n")

    run = str(options.folder / "run")
    settings = [
        "data.source=ids",
        f"data.paths={json.dumps([str(options.folder / 'games.npy')])}",
        "tokenizer.kind=listed",
        f"tokenizer.path={options.folder / 'moves.txt'}",
        f"training.max_minutes={options.minutes}",
        *options.set,
    ]
    arguments = [part for setting in settings for part in ("--set", setting)]
    print(minigpt("train", "--run", run, *arguments), end="")

    opening = ["e2e4", "e7e5"]
    found = minigpt(
        *("sample", run, "--prompt", " ".join(opening), "--json", "--temperature", "1"),
        *("--num-samples", str(options.samples), "--max-new-tokens", "20"),
    )
    texts = [json.loads(line)["text"] for line in found.splitlines()]
    counts = [legal_moves(opening, text.split()) for text in texts]
    legal, tried = map(sum, zip(*counts, strict=True))
    print(f"{legal} of {tried} moves are legal: {legal / max(1, tried):.1%}")


if __name__ == "__main__":
    main()
