"""The package as a Python user sees it."""

import pickle
import subprocess
import sys

import pytest

import minigpt
from minigpt.errors import ArgumentProblem


def test_dir_lists_the_public_names():
    assert dir(minigpt) == sorted(minigpt.__all__)
    for name in minigpt.__all__:
        assert getattr(minigpt, name) is not None
    assert dir(minigpt) == sorted(minigpt.__all__)


def test_names_that_need_no_keras():
    code = (
        "import minigpt, sys\n"
        "names = [n for n, m in minigpt._MODULES.items() if not m.startswith(minigpt._WITH_KERAS)]\n"
        "for name in names: getattr(minigpt, name)\n"
        "assert len(names) > 10 and not {'keras', 'tensorflow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_name():
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        minigpt.trian  # noqa: B018


def test_threads_can_import_at_the_same_time():
    code = (
        "import minigpt, threading\n"
        "names = ['train', 'load', 'TextGenerator', 'evaluate_run']\n"
        "threads = [threading.Thread(target=getattr, args=(minigpt, name)) for name in names]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "import os; os.write(2, b'visible')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "visible"


def test_an_argument_problem_can_be_pickled():
    problem = pickle.loads(pickle.dumps(ArgumentProblem("run", "a", "is empty")))
    assert problem == "run = 'a': is empty"
    assert problem.as_option({"run": "--run"}) == "--run a: is empty"
