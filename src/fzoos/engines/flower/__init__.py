"""Flower carries the messages: for teams that already have a Flower federation, and for slow objectives.

Flower starts a Python process per message, and its nodes poll for work every three seconds, so that one exchange takes
five to ten seconds. It provides TLS, authentication of the sites by registered keys, and secure aggregation.

The server's half is a `ServerApp`, a site's half a `ClientApp`:

    # client_app.py
    import fzoos
    from fzoos.engines.flower import client_app

    app = client_app(lambda config: fzoos.Program.python(config["objective"]))

    # server_app.py
    from fzoos.engines.flower import server_app

    app = server_app("study.toml")
"""

try:
    import flwr  # noqa: F401
except ImportError:
    raise ImportError("this engine needs Flower: pip install 'fzoos[flower]'") from None

from fzoos.engines.flower.apps import client_app, server_app
from fzoos.engines.flower.engine import FlowerEngine
from fzoos.engines.flower.secure import SecureFlowerEngine

__all__ = ["FlowerEngine", "SecureFlowerEngine", "client_app", "server_app"]
