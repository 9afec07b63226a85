"""DESIGN style 8: README snippets run (those of `docs/` in `test_docs.py`), and links lead somewhere."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")


def test_python_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "README.md"
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "snippet"}
    for found in BLOCK.finditer(text):
        line = text[: found.start(1)].count("\n")
        exec(compile("\n" * line + found[1], str(page), "exec"), names)
    result = names["result"]
    assert abs(result.x - 0.5).max() < 0.05  # the minimum of the mean of (x - 0.2)^2, (x - 0.6)^2, (x - 0.7)^2


def test_links_lead_somewhere():
    links = [(page, target) for page in PAGES for target in LINK.findall(page.read_text(encoding="utf-8"))]
    assert not [f"{page.name} links to {target}" for page, target in links if not (page.parent / target).exists()]


def test_front_page_has_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^    (make \w+)", text, re.MULTILINE) == ["make demo", "make test"]
