"""minigpt-portable: what opens a portable file, on a system without TensorFlow, and on Windows."""

import json
import re
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

import gguf
import pytest

import minigpt
from tests.targets.gguf.models import build
from tests.test_distribution import EXTRAS, PROJECT, parts

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "packaging/portable"
if not FOLDER.is_dir():
    pytest.skip("a source distribution has no packaging/", allow_module_level=True)
PORTABLE = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))
LEFT_OUT = [
    path.removesuffix(".py").replace("/", ".")
    for path in PORTABLE["tool"]["hatch"]["build"]["exclude"]
]
# Packages that minigpt-portable does not install, and modules that Windows lacks.
BLOCKED = [
    *("tensorflow", "tensorflow_text", "gguf", "sentencepiece", "safetensors", "google.protobuf"),
    *("tomli_w", "pyppmd", "zstandard", "sacrebleu", "jinja2"),
    *("fcntl", "resource", "termios", "tty", "pwd", "grp", "readline"),
    *LEFT_OUT,
]
# Names of `os` that Windows lacks, without those that Python's own modules for Linux use.
NAMES = ["fork", "forkpty", "sysconf", "sched_getaffinity", "O_NOFOLLOW", "O_DIRECTORY"]
# Packages that have code for Windows are imported before anything is blocked.
CODE = """
import json, os, signal, sys, types
import filelock, numpy
import starlette.applications, typer, uvicorn.protocols.http.h11_impl, wasmtime
blocked, names, commands = map(json.loads, sys.argv[1:])
for name in blocked:
    sys.modules[name] = None
for name in names:
    delattr(os, name)
del signal.SIGHUP
from minigpt.__main__ import main
import minigpt.storage.files
minigpt.storage.files.sys = types.SimpleNamespace(platform="win32")
for command in commands:
    sys.argv = ["minigpt", *command]
    try:
        main()
    except SystemExit as ended:
        print("status", ended.code or 0, flush=True)
"""
FILES = ROOT / "tests/fixtures/runs"
GPT, PAIRS = str(FILES / "tiny/model.gguf"), str(FILES / "pairs/model.gguf")
GREEDY = ("--temperature", "0", "--max-new-tokens", "8")


def on_windows(*commands: tuple[str, ...]) -> list[str]:
    arguments = map(json.dumps, (BLOCKED, NAMES, commands))
    return [sys.executable, "-c", CODE, *arguments]


def run(*commands: tuple[str, ...], cwd: Path, text: str = "") -> tuple[list[str], list[str]]:
    """What commands print there on both streams, as lines."""
    done = subprocess.run(
        on_windows(*commands),
        input=text,
        cwd=cwd,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr.splitlines()


def test_commands_open_files(tmp_path):
    file = build({}, max_len=64, chat=True).write(tmp_path / "chat.gguf")
    answer = minigpt.load_portable(file).chat("A?", 8, temperature=0)
    model, pairs = minigpt.load_portable(GPT), minigpt.load_portable(PAIRS)
    lines, errors = run(
        ("sample", GPT, "--prompt", "Ana", *GREEDY),
        ("tokenize", GPT, "--text", "Ana"),
        ("translate", PAIRS, "--text", "a b"),
        ("chat", "chat.gguf", *GREEDY),
        ("export", GPT, "--format", "html"),
        ("sample", "model.html", "--prompt", "Ana", *GREEDY),
        cwd=tmp_path,
        text="A?\n",
    )
    (written,) = (f"Ana{text}" for text in model.generate("Ana", 8, temperature=0))
    assert errors == []
    ids = model.tokenizer.encode("Ana")
    pieces = "|".join(map(model.tokenizer.piece, ids))
    counted = f"{len(ids)} tokens, 3 bytes, {3 / len(ids):.2f} bytes per token"
    expected = [
        written.splitlines(),
        [pieces, " ".join(map(str, ids)), counted],
        pairs.translate(["a b"]),
        [" ".join(answer.splitlines())],
        ["Wrote model.html"],
        written.splitlines(),
    ]
    assert lines == [line for printed in expected for line in (*printed, "status 0")]
    page = (tmp_path / "model.html").read_text(encoding="utf-8")
    facts = json.loads(re.search('id="facts">(.*?)</script>', page)[1])
    assert facts["parameters"] == sum(tensor.n_elements for tensor in gguf.GGUFReader(GPT).tensors)


def test_server_of_a_file(tmp_path):
    command = on_windows(("serve", GPT, "--port", "0", "--threads", "1"))
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as server:
        try:
            url = re.search("http://[^ ]+[0-9]", server.stderr.readline())[0]
            body = json.dumps({"prompt": "Ana", "max_tokens": 8, "temperature": 0}).encode()
            request = urllib.request.Request(
                f"{url}/v1/completions", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = json.load(answer)["choices"][0]["text"]
            with urllib.request.urlopen(url, timeout=60) as page:
                assert b"<!doctype html" in page.read(100).lower()
        finally:
            server.terminate()
    assert [text] == minigpt.load_portable(GPT).generate("Ana", 8, temperature=0)


def test_other_commands_say_in_one_line_what_to_install(tmp_path):
    commands = [
        ("train",),
        ("runs",),
        ("export", str(FILES / "tiny"), "--output", "model"),
        ("export", "model.guf", "--format", "html", "--output", "page.html"),
        ("--help",),
    ]
    lines, errors = run(*commands, cwd=tmp_path)
    problem = "needs TensorFlow: install minigpt-keras in another environment, on Windows in WSL 2"
    assert errors[:3] == [f"minigpt: {command[0]}: {problem}" for command in commands[:3]]
    assert errors[3].startswith(
        "minigpt: RUN model.guf: does not exist; expected a base (english), a"
    )
    assert "Run small GPT language models from portable files." in " ".join(lines)
    listed = [line.split()[0] for line in lines[lines.index("Commands:") + 1 : -1]]
    assert listed == ["sample", "chat", "translate", "tokenize", "export", "serve"]
    code = "import minigpt, sys; sys.modules['keras'] = None; minigpt.train"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: minigpt.train: {problem}"


def test_requirements_and_license_are_those_of_minigpt_keras():
    given = {parts(r) for r in [*PROJECT["dependencies"], *EXTRAS["serve"]]}
    project = PORTABLE["project"]
    assert {parts(r) for r in project["dependencies"]} < given
    assert project["optional-dependencies"] == {"grammar": EXTRAS["grammar"]}
    assert (FOLDER / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (FOLDER / "minigpt").resolve() == ROOT / "minigpt"


def test_the_container_is_built_from_what_the_wheel_needs():
    steps = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    wheel = hatch["build"]["targets"]["wheel"]
    readme = hatch["metadata"]["hooks"]["fancy-pypi-readme"]["fragments"]
    needed = {*wheel["packages"], *(path.split("/")[0] for path in wheel["force-include"])}
    needed |= {
        *(part["path"] for part in readme),
        *PROJECT["license-files"],
        "pyproject.toml",
        "constraints.txt",
    }
    assert {line[1:] for line in ignored if line.startswith("!")} == needed
    extras = re.findall(r"EXTRAS=([\w,]+)", steps)
    assert (
        {name for found in extras for name in found.split(",")} == {"gpu", "serve"} <= set(EXTRAS)
    )
    assert re.findall("^USER (.*)$|^VOLUME (.*)$", steps, re.M) == [
        ("minigpt", ""),
        ("", "/home/minigpt/runs"),
    ]
