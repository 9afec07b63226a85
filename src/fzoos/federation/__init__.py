"""What every algorithm shares: the client's loop, the server's loop, and studies across machines."""

from fzoos.federation.conductor import conduct
from fzoos.federation.station import Station
from fzoos.federation.study import Study

__all__ = ["Station", "Study", "conduct"]
