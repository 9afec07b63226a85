"""A site's half, run by Flower's SuperNode for every message."""

import fzoos
from fzoos.engines.flower import client_app

# The objective runs in its own process: a crash there is a failed reply, not a lost site. If it returns no value within
# the time of an exchange (`timeout` in study.toml), it is killed.
app = client_app(lambda config: fzoos.Program.python(config["objective"], timeout=600.0))
