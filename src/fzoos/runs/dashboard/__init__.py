"""Runs in a browser: a page that is updated live (`server`), and one file of the same plots, for archives (`report`).

=============  =======================================================================================================
module         what it does
=============  =======================================================================================================
data.py        reads files of runs, without ever writing to one, and reports what changed
rows.py        what the list and the page say of a run, as JSON has it
walk.py        the coordinates of x over the rounds
changes.py     renames, tags and deletes runs, where the dashboard was started with `--edit`
guard.py       who may see the page: Host header, token, security headers
server.py      the page, its data and the events that report a run's progress (extra `fzoos[dashboard]`)
../report.py   page, style, script and data in one HTML file
static/        the front end, the same for both: plain HTML, CSS and JavaScript, nothing to build, nothing to fetch
=============  =======================================================================================================
"""
