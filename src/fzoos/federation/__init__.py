"""What every algorithm shares: the client's loop, the server's loop, and studies across machines."""

from typing import TYPE_CHECKING

from fzoos._util.lazy_package import load_on_use

if TYPE_CHECKING:
    from fzoos.federation.conductor import conduct
    from fzoos.federation.site import StudySite
    from fzoos.federation.study import Study

__all__ = ["Study", "StudySite", "conduct"]

load_on_use(
    __name__,
    {
        "fzoos.federation.conductor": "conduct",
        "fzoos.federation.site": "StudySite",
        "fzoos.federation.study": "Study",
    },
)
