"""NVIDIA FLARE carries the messages: milliseconds a round, certificates, one process per site and study.

The server's half and a site's half are objects of FLARE's Collab API; `run` puts them into a job, hands it to FLARE's
simulator or to a real deployment, shows its progress, and sends it again when a process died:

    from nvflare.recipe import ProdEnv
    from fzoos.engines.flare import run
    from fzoos.federation.study import Study

    result = run(Study.load("study.toml"), ProdEnv("kits/lead@example.com", username="lead@example.com"))

Nothing in such a job is code: the classes are those of the fzoos that a site has installed, and what is private to a
site (its objective, its journal) is named in a file at the site. See `fzoos.engines.flare.settings`.
"""

try:
    import nvflare  # noqa: F401
except ImportError:
    raise ImportError("this engine needs NVIDIA FLARE: pip install 'fzoos[flare]'") from None

from fzoos.engines.flare.engine import FlareEngine
from fzoos.engines.flare.job import recipe, run
from fzoos.engines.flare.server import server_app
from fzoos.engines.flare.site import client_app

__all__ = ["FlareEngine", "client_app", "recipe", "run", "server_app"]
