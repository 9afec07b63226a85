"""The server's half, run by Flower's SuperLink."""

from fzoos.engines.flower import server_app

app = server_app()
