"""The commands, and the report as a file."""

import json
import re

import pytest

from fzoos.runs.reader import read
from fzoos.runs.report import report

from .conftest import keep


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_a_report_has_the_runs_that_were_asked_for(kept, tmp_path, run_command):
    output = tmp_path / "report.html"
    code, out, _ = run_command("report", f"{kept}:1", kept, "-o", output)
    assert code == 0
    assert str(output) in out
    data = data_of(output.read_text(encoding="utf-8"))
    assert [one["name"] for one in data["runs"]] == ["FedZO", "FZooS"]
    assert [len(one["history"]["round"]) for one in data["details"]] == [4, 6]
    run_command("report", kept, "--all", "-o", output)
    assert [one["name"] for one in data_of(output.read_text(encoding="utf-8"))["runs"]] == ["FedZO", "FedProx", "FZooS"]


def test_a_report_needs_nothing_but_itself(kept):
    page = report([read(f"{kept}:1")])
    assert not re.search(r"""<link rel="stylesheet"|<script src|@import|url\(|src=["']http""", page)
    assert "default-src 'none'" in page
    assert "<noscript>" in page


def test_texts_of_a_run_stay_texts(tmp_path):
    """A name that tries to end the script element it is in."""
    name = '</script><script>document.title = "taken"</script><img src=x onerror=alert(1)>'
    keep(tmp_path / "runs.db", rounds=1, name=name)
    page = report([read(str(tmp_path))])
    assert data_of(page)["runs"][0]["name"] == name
    assert "<script>document.title" not in page
    assert "<img" not in page


def test_the_report_in_words(kept, run_command, tmp_path):
    code, out, _ = run_command("report", kept, f"{kept}:2", "--format", "md")
    assert code == 0
    assert "FZooS" in out
    assert "FedProx" in out
    run_command("report", kept, "--format", "md", "-o", tmp_path / "report.md")
    assert "FZooS" in (tmp_path / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["report", "nothing.db"], "nothing.db"),
        (["report", "{kept}:99"], "99"),
        (["report", "{kept}", "--format", "docx"], "docx"),
        (["report", "{kept}", "-o", "{kept}"], "must be a .html"),
        (["report", "{kept}", "-o", "no/such/folder/report.html"], "no/such/folder"),
        (["dashboard", "nothing.db"], "nothing.db"),
        (["dashboard", "{kept}", "--token", "short"], "at least 16"),
        (["dashboard", "{kept}", "--port", "99999"], "99999"),
    ],
)
def test_wrong_input_is_one_line(kept, run_command, arguments, what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = kept.read_bytes()
    code, out, err = run_command(*(argument.format(kept=kept) for argument in arguments))
    assert code == 2
    assert out == ""
    assert err.startswith("fzoos: ")
    assert what in err
    assert err.count("\n") == 1
    assert kept.read_bytes() == before
    assert list(tmp_path.iterdir()) == []
