"""The server: what it sends, to whom, and how it ends. Real requests to a real server."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from fzoos.runs.dashboard.index import RunIndex
from fzoos.runs.dashboard.server import serve

from .conftest import keep, serving, wait_for

TOKEN = "a-word-that-nobody-guesses"


@pytest.fixture(scope="module")
def url(kept):
    with serving(kept) as address:
        yield address


def test_the_list_and_a_run(url):
    runs = httpx.get(url + "api/runs").json()["runs"]
    assert [run["name"] for run in runs] == ["FZooS", "FedProx", "FedZO"]
    run = httpx.get(url + "api/run", params={"key": runs[0]["key"]}).json()
    assert run["history"]["round"] == [1, 2, 3, 4, 5, 6]
    assert len(run["history"]["diagnostics"]["correction_length"]) == 6
    later = httpx.get(url + "api/run", params={"key": runs[0]["key"], "after": "4"}).json()
    assert later["history"]["round"] == [5, 6]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("key=runs.db:9", 404),
        ("", 404),
        ("key=runs.db:1&after=x", 400),
        ("key=runs.db:1&after=-1", 400),
        ("key=runs.db:1&after=" + "9" * 19, 400),
        ("key=runs.db:1&after=" + "9" * 5000, 400),
        ("key=runs.db:" + "9" * 19, 404),
        ("key=runs.db:" + "9" * 5000, 404),
        ("key=%00%ff", 404),
    ],
)
def test_requests_that_make_no_sense(url, query, status):
    answer = httpx.get(f"{url}api/run?{query}")
    assert answer.status_code == status
    assert answer.json()["error"]


def test_a_path_with_nul(url):
    assert httpx.get(f"{url}static/%00").status_code == 400


@pytest.mark.parametrize("path", ["", "api/runs", "static/app.js", "nothing", "static/../data.py"])
def test_every_answer_has_the_security_headers(url, path):
    headers = httpx.get(url + path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in headers


def test_the_page_asks_for_nothing_from_elsewhere(url):
    """The only address in the page, and in what it loads, is the name of SVG's vocabulary."""
    page = httpx.get(url).text
    names = re.findall(r'(?:src|href)="(static/[^"]+)"', page)
    assert len(names) > 8
    for text in [page, *(httpx.get(url + name).raise_for_status().text for name in names)]:
        assert set(re.findall(r"https?:[^\"']*|url\(|@import|[\"']//", text)) <= {"http://www.w3.org/2000/svg"}


def test_nothing_but_get(url):
    assert httpx.post(url + "api/runs").status_code == 405


@pytest.mark.parametrize(
    "host", ["evil.example:8366", "127.0.0.1.evil.example", "10.0.0.1", "", "[::1]evil.example:80", "[::1"]
)
def test_names_of_other_machines_are_not_answered_to(url, host):
    """DNS rebinding: a foreign page whose name has been made to point here."""
    for path in ("", "api/runs", "events", "static/app.js"):
        assert httpx.get(url + path, headers={"host": host}).status_code == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:8366"])
def test_names_of_this_machine_are(url, host):
    assert httpx.get(url + "api/runs", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("path", ["//evil.example/?a=1", "/\\evil.example/"])
def test_no_redirect_leads_to_another_site(kept, path):
    """With the token in the address, the page without it is on this machine, whatever the path looks like."""
    with (
        serving(kept, token=TOKEN, local=False, cookie="fzoos-1") as url,
        socket.create_connection((httpx.URL(url).host, httpx.URL(url).port)) as line,
    ):
        line.sendall(f"GET {path}{'&' if '?' in path else '?'}token={TOKEN} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
        head = line.makefile("rb").read().decode("latin-1").partition("\r\n\r\n")[0]
    [location] = re.findall(r"(?i)^location: (.*)$", head.replace("\r", ""), re.MULTILINE)
    assert re.match(r"/(?![/\\])", location), location


def test_with_a_token_nothing_is_shown_without_it(kept):
    with serving(kept, token=TOKEN, local=False, cookie="fzoos-1") as url:
        for path in (
            "",
            "api/runs",
            "api/run?key=runs.db:1",
            "events",
            "static/app.js",
            "?token=",
            "?token=wrong",
            "?token=%ff",
        ):
            assert httpx.get(url + path).status_code == 401
        assert httpx.get(url, cookies={"fzoos-1": "wrong"}).status_code == 401
        assert httpx.get(url, headers={"cookie": 'fzoos-1="; ='}).status_code == 401
        with httpx.Client() as visitor:
            first = visitor.get(f"{url}?token={TOKEN}")
            assert first.status_code == 303
            assert first.headers["location"] == "/"
            cookie = first.headers["set-cookie"].lower()
            assert "httponly" in cookie
            assert "samesite=lax" in cookie
            assert visitor.get(url).status_code == 200
            assert len(visitor.get(url + "api/runs").json()["runs"]) == 3
            # A page that is reached under any name: with a token that does no harm.
            assert visitor.get(url, headers={"host": "my-machine.example"}).status_code == 200


def events(lines):
    for line in lines:
        if line.startswith("data: "):
            yield json.loads(line[6:])


def test_a_run_that_goes_on_is_pushed(tmp_path, going_on):
    """The list comes at once; then again whenever a run begins, goes on or ends, without being asked for."""
    with serving(tmp_path) as url, httpx.stream("GET", url + "events", timeout=30) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        pushed = events(stream.iter_lines())
        assert next(pushed)["runs"] == []
        process = going_on(tmp_path / "runs.db")
        rounds = []
        while len(rounds) < 3:
            rounds += [run["rounds"] for run in next(pushed)["runs"] if run["status"] == "running"]
        assert rounds == sorted(set(rounds))
        process.kill()
        process.wait()
        while next(pushed)["runs"][0]["status"] != "interrupted":
            pass


def test_a_token_must_be_one(kept):
    with RunIndex(kept) as index, pytest.raises(ValueError, match="at least 16"):
        serve(index, token="short")


@contextlib.contextmanager
def command(*arguments, **environment):
    """`fzoos dashboard` in a process of its own."""
    line = [sys.executable, "-c", "from fzoos.cli import main; main()", "dashboard", *map(str, arguments)]
    process = subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"} | environment,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_port_taken_foreign_file_and_ctrl_c(tmp_path, end):
    """The next free port is taken, and said; what is no file of runs is named; Ctrl-C ends it while a page is open."""
    keep(tmp_path / "runs.db", rounds=1)
    (tmp_path / "other.db").write_text("not a database " * 100)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with command(tmp_path, "--port", port, FZOOS_DASHBOARD_TOKEN=TOKEN) as process:
            taken = process.stdout.readline()
            found = re.fullmatch(r"port (\d+) is taken; (\d+) is free\n", taken)
            assert found, taken
            assert int(found[1]) == port
            assert int(found[2]) > port
            address = process.stdout.readline().split()[-1]
            assert address == f"http://127.0.0.1:{found[2]}/?token={TOKEN}"
            with httpx.Client(follow_redirects=True) as visitor:
                wait_for(lambda: _answers(visitor, address))
                assert [run["name"] for run in visitor.get(f"http://127.0.0.1:{found[2]}/api/runs").json()["runs"]] == [
                    "FedZO"
                ]
                with visitor.stream("GET", f"http://127.0.0.1:{found[2]}/events") as stream:
                    next(events(stream.iter_lines()))
                    process.send_signal(end)
                    assert process.wait(timeout=20) == 0
            assert "other.db" in process.stderr.read()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other.db", "runs.db"]


def test_a_page_that_can_change_runs_has_a_token_on_this_machine_too(tmp_path):
    """Other people may be logged in here; without `--edit` they can look, as before."""
    keep(tmp_path / "runs.db", rounds=1)
    for words, pattern in (
        (["--edit"], r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}"),
        ([], r"http://127\.0\.0\.1:\d+/"),
    ):
        with command(tmp_path, "--port", 0, *words, FZOOS_DASHBOARD_TOKEN="") as process:
            assert re.fullmatch(pattern, process.stdout.readline().split()[-1])


def _answers(visitor, address):
    try:
        return visitor.get(address).status_code == 200
    except httpx.TransportError:
        return False
