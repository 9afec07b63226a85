"""Runs in a browser: a live page (`server.py`), whose plots `fzoos.runs.report` writes into one file as well.

`index.py` watches files of runs and never writes to them, `view.py` turns runs into what the page shows, `guard.py`
decides who may see and change them. `static/` is the front end of page and report: plain HTML, CSS and JavaScript that
needs no build step and loads nothing from elsewhere.
"""
