"""Help, documentation and completion say what the commands are."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fzoos.cli.app import COMMANDS, load_command
from fzoos.cli.exit_codes import EXIT_CODES
from fzoos.cli.help import EXAMPLES, epilog

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"
TOP = {name: load_command(name) for name in COMMANDS}
EVERY = {(name,): command for name, command in TOP.items() if not hasattr(command, "commands")} | {
    (name, below): command
    for name, group in TOP.items()
    if hasattr(group, "commands")
    for below, command in group.commands.items()
}


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_command_has_examples_that_it_understands(fzoos, words):
    code, out, _ = fzoos(*words, "--help")
    assert code == 0
    _, _, examples = out.partition("  Examples:\n")
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    assert lines
    for line in lines:
        typed = shlex.split(line)
        assert typed[: 1 + len(words)] == ["fzoos", *words]
        EVERY[words].make_context(words[-1], typed[1 + len(words) :])  # raises if anything in it is unknown


def test_examples_are_of_commands_that_exist():
    assert EXAMPLES.keys() <= {words[-1] for words in EVERY}


def test_exit_codes_are_in_the_help_and_in_the_documentation(fzoos):
    out = fzoos("--help")[1]
    text = DOCS.read_text()
    for code, meaning in EXIT_CODES.items():
        assert f"{code:>3}  {meaning}\n" in out
        assert f"| {code} | {meaning} |\n" in text
    assert "Exit codes:" in epilog()


def test_the_documentation_names_every_command():
    table = re.findall(r"^\| `fzoos .*", DOCS.read_text(), re.MULTILINE)
    named = {word for row in table for word in re.findall(r"`(?:fzoos )?([a-z-]+)", row)}
    assert named == TOP.keys()


def test_what_the_documentation_types_works(fzoos):
    blocks = re.findall(r"```console\n(.*?)```", DOCS.read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) > 8
    for line in lines:
        prompt, program, *arguments = shlex.split(line)
        assert (prompt, program) == ("$", "fzoos")
        code, out, _ = fzoos(*arguments)
        assert code == 0, line
        if "--json" in arguments and "all.json" not in arguments:
            json.loads(out)
    assert Path("run.csv").exists()


BASH = shutil.which("bash")


@pytest.mark.skipif(BASH is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("script", "words"),
    [("fzoos --show-completion bash", "fzoos comp"), ("_FZOOS_COMPLETE=source_bash fzoos", "fzoos comp")],
)
def test_bash_completes_commands(tmp_path, script, words):
    """The script that `--show-completion` prints, sourced by a real bash."""
    lines = [
        f'eval "$({script})"',
        f"COMP_WORDS=({words}); COMP_CWORD=1; _fzoos_completion fzoos; echo ${{COMPREPLY[@]}}",
        "COMP_WORDS=(fzoos run l); COMP_CWORD=2; _fzoos_completion fzoos; echo ${COMPREPLY[@]}",
        "COMP_WORDS=(fzoos run levy --algorithm scaff); COMP_CWORD=4; _fzoos_completion fzoos; echo ${COMPREPLY[@]}",
    ]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [BASH, "--norc", "-c", "\n".join(lines)], cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["compare compare-runs", "levy", "scaffoldi scaffoldii"], done.stderr
