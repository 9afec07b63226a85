"""What every algorithm shares: the client's loop, the server's loop, and studies across machines."""

from fzoos.federation.conductor import conduct
from fzoos.federation.site import StudySite
from fzoos.federation.study import Study

__all__ = ["Study", "StudySite", "conduct"]
