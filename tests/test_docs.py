"""The documentation: every snippet and command of a page runs, every name it mentions is there, the site is whole.

The blocks of a page are taken in order, as a reader takes them: a block with a title becomes the file of that name,
Python runs (all blocks of a page share their names), and so do the `$ fzoos` lines of console blocks.
"""

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import types
from html.parser import HTMLParser
from pathlib import Path

import pytest

import fzoos
from fzoos.algorithms import ALGORITHMS
from fzoos.cli import main
from fzoos.cli.app import COMMANDS, load_command

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
LASTING = {"dashboard"}  # commands that go on until Ctrl-C
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture
def algorithms():
    """The page on new algorithms registers one."""
    before = dict(ALGORITHMS)
    yield
    ALGORITHMS.clear()
    ALGORITHMS.update(before)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_runs(page, tmp_path, monkeypatch, algorithms):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # where dataclasses look for a class's module
    for found in BLOCK.finditer(text):
        language, title, body = found.groups()
        line = text[: found.start(3)].count("\n")
        if title:
            Path(title).parent.mkdir(parents=True, exist_ok=True)
            Path(title).write_text(body, encoding="utf-8")
        if language == "python":
            exec(compile("\n" * line + body, str(page), "exec"), module.__dict__)
        for command in commands(body) if language == "console" else ():
            if command[0] not in LASTING:
                with pytest.raises(SystemExit) as ended:
                    main(command)
                assert ended.value.code == 0, f"{page.name}: fzoos {shlex.join(command)}"


def commands(block):
    lines = re.findall(r"^(?:\$ )?fzoos (.+)$", block, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


def test_commands_exist():
    """Those that are shown, with their options, and those that are mentioned."""
    known = {name: load_command(name) for name in COMMANDS}
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *PAGES))
    for language, _, body in BLOCK.findall(text):
        for name, *words in commands(body) if language in ("console", "sh") else ():
            assert name in known, f"fzoos {name}"
            options = {option for parameter in known[name].params for option in parameter.opts} | {"--help"}
            given = {word.partition("=")[0] for word in words if re.match("-.", word)}
            assert given <= options, f"fzoos {name} has no {given - options}"
    for name in re.findall(r"`fzoos ([a-z][a-z-]*)", text):
        assert name in known, f"fzoos {name}"


def resolve(path):
    """The object that a dotted path names."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(path)


CODE = re.compile(r"`([\w/]+)\.py:([\w.]+)`")
FORMULAS = CODE.findall((DOCS / "concepts.md").read_text(encoding="utf-8"))
ARCHITECTURE = (DOCS / "architecture.md").read_text(encoding="utf-8")


def test_names_lead_to_code():
    """file.py:Name.method is there, and is defined in that file."""
    assert len(FORMULAS) > 40
    for file, name in {*FORMULAS, *CODE.findall(ARCHITECTURE)}:
        module = f"fzoos.{file.replace('/', '.')}"
        found = resolve(f"{module}.{name}")
        found = found.fget if isinstance(found, property) else found
        assert found.__module__ == module, f"{file}:{name}"


def test_tree_has_every_entry():
    """The tree of the page on the architecture, and what is in the folder."""
    tree = set(re.findall(r"^      (\w+)(?:/|\.py) ", ARCHITECTURE, re.MULTILINE))
    folder = Path(fzoos.__file__).parent
    found = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found - {"__init__"} <= tree


@pytest.mark.parametrize("title", ["One query", "One round"])
def test_walks_have_at_most_ten_hops(title):
    section = ARCHITECTURE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    hops = [int(number) for number in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)]
    assert hops == list(range(1, len(hops) + 1))
    assert 5 <= len(hops) <= 10


def test_reference_has_every_public_name():
    listed = re.findall(r"^::: (\S+)$", (DOCS / "reference.md").read_text(encoding="utf-8"), re.MULTILINE)
    shown = [resolve(path) for path in listed]
    assert len(set(listed)) == len(listed)
    missing = [name for name in fzoos.__all__ if name != "__version__" and getattr(fzoos, name) not in shown]
    assert not missing


def test_examples_are_shown():
    """The page has all of them."""
    shown = re.findall(r'--8<-- "examples/(.+)"', (DOCS / "objectives.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(path.name for path in (ROOT / "examples").iterdir() if path.is_file())


@pytest.fixture
def eleventh(tmp_path):
    """The file of the page on new algorithms, as a module on the path, and a plugin that registers it."""
    text = (DOCS / "adding.md").read_text(encoding="utf-8")
    (body,) = [body for _, title, body in BLOCK.findall(text) if title == "fedcm.py"]
    (tmp_path / "fedcm.py").write_text(body, encoding="utf-8")
    register = "from fedcm import FedCM\nfrom fzoos.algorithms import ALGORITHMS\nALGORITHMS[FedCM.name] = FedCM\n"
    (tmp_path / "register_fedcm.py").write_text(register, encoding="utf-8")
    return tmp_path


def test_eleventh_algorithm_keeps_the_contract(eleventh):
    """The whole contract suite, and the file's own example."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "register_fedcm"]
    command += ["-k", "fedcm or FedCM", "--doctest-modules", str(eleventh / "fedcm.py"), "tests/test_contract.py"]
    environment = os.environ | {"PYTHONPATH": str(eleventh), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 50


# The site


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built strictly: a link, an anchor, a page of the menu or a name of the reference that is not there fails it."""
    for package in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(package, reason="needs the documentation's tools: pip install 'fzoos[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


class Loaded(HTMLParser):
    """What a browser fetches by itself to show a page."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.found += [given[name] for name in ("src", "srcset", "data", "poster") if given.get(name)]
        if tag == "link":
            self.found.append(given.get("href", ""))


def test_site_needs_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert {page.name for page in PAGES} <= {f"{page.stem}.md" for page in pages}
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert loaded.found
        assert not [address for address in loaded.found if "//" in address.partition("?")[0]], page
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"url\(\s*[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet


def test_search_works_from_the_disk(site):
    """In a browser, without a server: the word is found, nothing complains, nothing is fetched from elsewhere."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    complaints = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url) if request.url.startswith("http") else None)
        page.goto((site / "index.html").as_uri())
        page.locator("input.md-search__input").click()
        page.keyboard.type("jitter")
        page.locator(".md-search-result__link").first.wait_for(timeout=60_000)
        assert "Troubleshooting" in page.locator(".md-search-result__list").inner_text()
        browser.close()
    assert complaints == []
