"""What can be imported from here; `load_on_use` reads it, too."""

from fzoos.federation.conductor import conduct as conduct
from fzoos.federation.site import StudySite as StudySite
from fzoos.federation.study import Study as Study
