"""A site's half, run by Flower's SuperNode for every message."""

import fzoos
from fzoos.engines.flower import client_app

# The objective runs in a process of its own: a crash there is a failed reply, not a lost site.
app = client_app(lambda config: fzoos.Program.python(config["objective"]))
