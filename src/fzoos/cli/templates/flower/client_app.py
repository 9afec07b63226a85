"""A site's half, run by Flower's SuperNode for every message."""

import fzoos
from fzoos.engines.flower import client_app

# The objective runs in a process of its own: a crash there is a failed reply, not a lost site. One that gives no value
# for as long as an exchange may take (`timeout` in study.toml) hangs, and is killed.
app = client_app(lambda config: fzoos.Program.python(config["objective"], timeout=600.0))
